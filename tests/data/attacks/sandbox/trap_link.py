# Tries: a link to what only the outside has.
# Success: a reader outside follows it.
import os

os.symlink("@CANARY_FOLDER@/secret.txt", "trap")
print("ATTEMPTED")
