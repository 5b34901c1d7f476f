# Tries: a file of a terabyte without content.
# Success: a reader outside takes it into memory.
import os

file = os.open("trap", os.O_CREAT | os.O_RDWR)
for size in (2**40, 2**33, 2**30, 2**22):
    try:
        os.truncate(file, size)
        break
    except OSError:
        pass
print("ATTEMPTED", os.fstat(file).st_size)
