# Tries: empty files and folders without end, whose names take the kernel's memory but no disk.
# Success: more of them than the memory of the sandbox would hold.
import os

made = 0
os.mkdir("many")
os.mkdir("/tmp/many")
while made < 200_000:
    os.mknod(f"many/{made}")
    os.mkdir(f"/tmp/many/{made}")
    made += 2
print("BREACH empty files without end")
