# Tries: a process name that misleads who parses /proc.
# Success: its time or memory is not counted, or it is left.
import ctypes
import os
import time

ctypes.CDLL(None).prctl(15, b") Z 1 1 1 (\n0 0", 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    time.sleep(3600)
print("ATTEMPTED")
