# Tries: put its own descriptors in place of all others, then write.
# Success: the result holds what was written as if it were an answer, or never comes.
import os

spare = os.open("/dev/null", os.O_RDWR)
copy = os.dup(1)
for number in range(1024):
    if number not in {copy, spare}:
        try:
            os.dup2(spare, number)
        except OSError:
            pass
os.write(copy, b"ATTEMPTED\n")
