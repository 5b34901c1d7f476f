# Tries: processes whose first thread has ended, so that they look dead, while another holds memory.
# Success: all the memory is held for half a second.
import ctypes
import os
import threading
import time

ready, done = os.pipe()


def hold():
    time.sleep(0.05)
    block = bytearray(64 * 2**20)
    for at in range(0, len(block), 4096):
        block[at] = 1
    os.write(done, b".")
    time.sleep(3600)


for _ in range(7):
    if os.fork() == 0:
        threading.stack_size(2**20)
        threading.Thread(target=hold).start()
        ctypes.CDLL(None).syscall(60, 0)
held = 0
while held < 7:
    held += len(os.read(ready, 16))
time.sleep(0.5)
print("BREACH 448 MiB in processes without a first thread")
