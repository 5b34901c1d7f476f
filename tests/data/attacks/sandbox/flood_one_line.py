# Tries: one line without end.
# Success: more is kept than the limit allows.
import os

while True:
    os.write(1, b"x" * 65536)
