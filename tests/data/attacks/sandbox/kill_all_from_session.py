# Tries: end everything that the session may signal, then itself.
# Success: the sandbox serves no more calls.
import os
import signal

try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
os.kill(os.getpid(), signal.SIGKILL)
