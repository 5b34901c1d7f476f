# Tries: folders of /dev/shm and /tmp without end.
# Success: 40,000 of them.
import os

made = 0
for place in ("/dev/shm", "/tmp"):
    try:
        while made < 40_000:
            os.mkdir(f"{place}/{made}")
            made += 1
        print("BREACH folders without end", flush=True)
    except OSError:
        pass
print("ATTEMPTED", made)
