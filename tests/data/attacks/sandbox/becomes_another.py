# Tries: replace the session by another program.
# Success: the sandbox serves no more calls.
import os

os.execv("/bin/sh", ["sh", "-c", "echo ATTEMPTED; exec sleep 3600"])
