# Tries: the same, by children that nobody waits for (their time is added to no parent's).
# Success: the call lasts longer than the limit of its wall clock; their time is counted by no kernel.
import os
import signal
import time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            until = time.process_time() + 0.02
            while time.process_time() < until:
                pass
            os._exit(0)
    except OSError:
        time.sleep(0.001)
