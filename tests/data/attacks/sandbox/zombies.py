# Tries: fill the table of processes with dead children, and end without collecting them.
# Success: the sandbox has no room for the next call.
import os

children = 0
try:
    while children < 500:
        if os.fork() == 0:
            os._exit(0)
        children += 1
    print("BREACH processes without end")
except OSError:
    pass
print("ATTEMPTED", children)
