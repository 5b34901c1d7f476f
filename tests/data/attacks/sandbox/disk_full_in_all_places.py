# Tries: fill /work, /tmp and /dev/shm.
# Success: more than the disk together.
held = 0
for place in ("/work", "/tmp", "/dev/shm"):
    try:
        with open(f"{place}/full", "wb", buffering=0) as file:
            while True:
                held += file.write(bytes(4096))
    except OSError:
        pass
if held > 8 * 2**20:
    print("BREACH", held)
print("ATTEMPTED", held)
