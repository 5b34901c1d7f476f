# Tries: close every descriptor, so that whoever reads the streams takes it for ended, and go on.
# Success: the call lasts longer than its limit, or a process of it is left.
import os
import time

os.closerange(0, 4096)
while True:
    time.sleep(1)
