# Tries: split the session in two, both of which return from the cell and answer.
# Success: the answer of the copy is taken for that of the next call.
import os

os.fork()
print("ATTEMPTED")
