# Tries: keep content in the attributes of files.
# Success: more than the disk.
import os

held = 0
for number in range(1000):
    try:
        os.mknod(f"a{number}")
    except OSError:
        break
    try:
        for attribute in range(8):
            os.setxattr(f"a{number}", f"user.{attribute}", bytes(16_000))
            held += 16_000
    except OSError:
        continue
if held > 8 * 2**20:
    print("BREACH", held)
print("ATTEMPTED", held)
