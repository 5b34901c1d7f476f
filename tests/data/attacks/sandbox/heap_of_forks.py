# Tries: more memory than the sandbox may have, no process more than its own limit.
# Success: all the memory is held for half a second.
import os
import time

ready, done = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(72 * 2**20)
        for at in range(0, len(block), 4096):
            block[at] = 1
        os.write(done, b".")
        time.sleep(3600)
held = 0
while held < 7:
    held += len(os.read(ready, 16))
time.sleep(0.5)
print("BREACH 500 MiB in eight processes")
