# Tries: an exit code beyond its range, from a thread, with exits in handlers.
# Success: the result is none.
import atexit
import os
import sys
import threading

atexit.register(sys.exit, 0)
atexit.register(lambda: os._exit(-1))
threading.Thread(target=sys.exit, args=("no",)).start()
sys.exit(10**30)
