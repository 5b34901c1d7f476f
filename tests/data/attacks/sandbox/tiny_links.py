# Tries: links with long targets without end, and many names of one file.
# Success: 40,000 of them.
import os

made = 0
try:
    open("one", "w").close()
    while made < 40_000:
        os.symlink("t" * 2000, f"s{made}")
        os.link("one", f"h{made}")
        made += 2
    print("BREACH links without end", flush=True)
except OSError:
    pass
print("ATTEMPTED", made)
