# Tries: leave a daemon (forked twice, of a session of its own) that writes after the call.
# Success: a process of the call is left.
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 1024)
        time.sleep(0.3)
        with open("/work/late", "w") as file:
            file.write("late")
        time.sleep(3600)
    os._exit(0)
os.wait()
print("ATTEMPTED")
