# Tries: end the session below the interpreter.
# Success: the sandbox serves no more calls.
import os

os._exit(3)
