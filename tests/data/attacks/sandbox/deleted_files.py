# Tries: fill the disk with files that have no name any more.
# Success: more than the disk of the sandbox.
import os

held = 0
keep = []
try:
    while held < 2**26:
        keep.append(os.open("nameless", os.O_CREAT | os.O_RDWR, 0o600))
        os.unlink("nameless")
        held += os.write(keep[-1], bytes(2**18))
except OSError:
    pass
if held > 8 * 2**20:
    print("BREACH", held)
print("ATTEMPTED", held)
