# Tries: a child of the session that looks dead, its first thread having ended, and goes on in another.
# Success: a process is left besides the session.
import ctypes
import os
import threading
import time

if os.fork() == 0:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    ctypes.CDLL(None).syscall(60, 0)
time.sleep(0.1)
print("ATTEMPTED")
