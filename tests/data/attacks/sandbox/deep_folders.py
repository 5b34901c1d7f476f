# Tries: folders so deep that a walk over them recurses too far or its paths are too long.
# Success: `files` fails or stalls.
import os

try:
    for _ in range(5000):
        os.mkdir("deep")
        os.chdir("deep")
except OSError:
    pass
try:
    open("bottom", "w").close()
except OSError:
    pass
print("ATTEMPTED")
