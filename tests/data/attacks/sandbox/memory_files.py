# Tries: files in memory that belong to no file system with a size.
# Success: 200 MiB of them.
import os

held = []
try:
    while len(held) < 200:
        held.append(os.memfd_create("held"))
        os.write(held[-1], bytes(2**20))
    print("BREACH 200 MiB in memory files")
except OSError:
    pass
print("ATTEMPTED", len(held))
