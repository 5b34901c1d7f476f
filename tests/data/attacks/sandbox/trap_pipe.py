# Tries: a named pipe, at which a reader or writer waits without end.
# Success: a reader or writer outside stalls.
import os

os.mkfifo("trap")
print("ATTEMPTED")
