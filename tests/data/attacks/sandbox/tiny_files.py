# Tries: empty files without end, whose names take memory but no disk.
# Success: 40,000 of them (some forty megabytes of the kernel's memory, for a disk of eight).
import os

made = 0
try:
    os.mkdir("many")
    while made < 40_000:
        os.mknod(f"many/{made}")
        made += 1
    print("BREACH empty files without end", flush=True)
except OSError:
    pass
print("ATTEMPTED", made)
