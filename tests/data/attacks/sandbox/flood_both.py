# Tries: both streams at once from several processes.
# Success: a reader that takes one stream after the other stalls.
import os

os.fork()
os.fork()
while True:
    os.write(1, b"o" * 65536)
    os.write(2, b"e" * 65536)
