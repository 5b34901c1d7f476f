# Tries: use the processor in many short processes, each gone before somebody looks.
# Success: the time of those that ended is not counted, and the call goes on.
import os
import time

while True:
    if os.fork() == 0:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        os._exit(0)
    os.wait()
