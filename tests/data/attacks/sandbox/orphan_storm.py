# Tries: many orphans for process 1 to collect, at the moment when the call ends.
# Success: a process of the call is left, or the sandbox serves no more calls.
import os
import time

end = time.monotonic() + 0.4
while time.monotonic() < end:
    try:
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                time.sleep(0.02)
            os._exit(0)
        os.wait()
    except OSError:
        if os.getppid() == 1:
            os._exit(0)
print("ATTEMPTED")
