# Tries: a folder in place of a file, and one that nobody may enter.
# Success: a reader or writer fails otherwise than by a typed error.
import os

os.mkdir("trap")
os.mkdir("closed")
open("closed/inner", "w").close()
os.chmod("closed", 0)
os.chmod("trap", 0)
print("ATTEMPTED")
