# Tries: memory shared with children that never touch it, and so is counted for none of them.
# Success: all the memory is held for half a second.
import mmap
import os
import time

for _ in range(7):
    shared = mmap.mmap(-1, 64 * 2**20)
    for at in range(0, len(shared), 4096):
        shared[at] = 1
    keeper = os.fork()
    if keeper == 0:
        time.sleep(3600)
    shared.close()
time.sleep(0.5)
print("BREACH 448 MiB in shared mappings")
