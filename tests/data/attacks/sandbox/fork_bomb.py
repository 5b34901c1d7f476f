# Tries: as many processes as there is room for.
# Success: the call lasts longer than its limit, or a process of it is left.
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
