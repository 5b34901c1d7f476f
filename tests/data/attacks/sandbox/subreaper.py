# Tries: become the parent of orphans in place of process 1, and end with them alive.
# Success: a process of the call is left.
import ctypes
import os
import time

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid() if os.getpgid(0) != os.getpid() else None
        time.sleep(3600)
    os._exit(0)
os.wait()
print("ATTEMPTED")
