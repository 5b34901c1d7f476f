# Tries: a named pipe with both ends held by the session, which gives a reader bytes and a writer room for some.
# Success: a reader or writer outside stalls.
import os

os.mkfifo("trap")
held = os.open("trap", os.O_RDWR)
os.write(held, b"CANARY")
print("ATTEMPTED")
