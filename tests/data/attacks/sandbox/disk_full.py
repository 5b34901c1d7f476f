# Tries: fill the disk.
# Success: more than its size.
held = 0
try:
    for number in range(1000):
        with open(f"file{number}", "wb", buffering=0) as file:
            for _ in range(16):
                held += file.write(bytes(65536))
except OSError:
    pass
if held > 8 * 2**20:
    print("BREACH", held)
print("ATTEMPTED", held)
