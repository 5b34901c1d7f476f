# Tries: take every permission from its own folder and files.
# Success: a reader or writer fails otherwise than by a typed error, or what is left outside cannot be removed.
import os

open("trap", "w").close()
os.chmod("trap", 0)
try:
    os.chmod("/work", 0)
except OSError:
    pass
print("ATTEMPTED")
