# Tries: never end, without using the processor.
# Success: the call lasts longer than its limit.
import time

time.sleep(3600)
