# Tries: leave children that fork all the time, so that ending one process after the other never ends.
# Success: a process of the call is left.
import os

if os.fork() == 0:
    for _ in range(3):
        os.fork()
    while True:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            pass
print("ATTEMPTED")
