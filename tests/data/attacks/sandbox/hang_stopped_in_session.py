# Tries: stop the session itself, with its whole group.
# Success: the call lasts longer than its limit, or the sandbox serves no more calls.
import os
import signal

os.kill(0, signal.SIGSTOP)
signal.pause()
