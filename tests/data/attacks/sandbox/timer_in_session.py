# Tries: a timer and handlers of the session that fire when the cell is over.
# Success: the session ends without the sandbox noticing, or the next call fails by no doing of its own.
import os
import signal

signal.signal(signal.SIGALRM, lambda *_: os.fork())
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
print("ATTEMPTED")
