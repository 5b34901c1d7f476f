# Tries: a fork bomb in the session, each copy of which goes on as if it were the session.
# Success: two sessions answer, or the sandbox serves no more calls.
import os

for _ in range(10):
    try:
        os.fork()
    except OSError:
        pass
