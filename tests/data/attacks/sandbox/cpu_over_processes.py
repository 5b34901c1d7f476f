# Tries: use the processor in several processes, none of which reaches a limit of its own.
# Success: far more than the limit of the call is used.
import os

for _ in range(3):
    os.fork()
while True:
    pass
