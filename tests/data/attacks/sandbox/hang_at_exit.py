# Tries: end, and hang in what runs at the end.
# Success: the call lasts longer than its limit.
import atexit
import time

atexit.register(time.sleep, 3600)
