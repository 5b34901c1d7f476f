# Tries: the same in the session.
# Success: the call lasts longer than its limit, or the sandbox serves no more calls.
import os
import time

os.closerange(0, 4096)
while True:
    time.sleep(1)
