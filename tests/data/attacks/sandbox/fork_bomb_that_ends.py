# Tries: processes that fork and end at once, so that a list of them is stale when it is read.
# Success: a process of the call is left.
import os

for name in range(3):
    os.fork()
while True:
    try:
        if os.fork():
            os._exit(0)
        os.setsid()
    except OSError:
        pass
