# Tries: leave a daemon from the session, in a group and session of its own.
# Success: a process is left besides the session, or writes while no cell runs.
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            with open("/work/late", "a") as file:
                file.write("late")
            time.sleep(0.01)
    os._exit(0)
os.wait()
print("ATTEMPTED")
