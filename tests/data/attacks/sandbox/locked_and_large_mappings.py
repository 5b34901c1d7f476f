# Tries: memory through mappings of /dev/zero, of locked pages and of a file that grows.
# Success: 400 MiB.
import mmap
import os

held = []
try:
    device = os.open("/dev/zero", os.O_RDWR)
    while len(held) < 25:
        block = mmap.mmap(device, 16 * 2**20, flags=mmap.MAP_SHARED)
        for at in range(0, len(block), 4096):
            block[at] = 1
        held.append(block)
    print("BREACH 400 MiB mapped")
except (OSError, ValueError, MemoryError):
    pass
print("ATTEMPTED", len(held))
