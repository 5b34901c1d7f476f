# Tries: every signal to process 1 and to the parent.
# Success: the sandbox serves no more calls.
import os

for number in range(1, 65):
    for process in {1, os.getppid()} - {os.getpid()}:
        try:
            os.kill(process, number)
        except OSError:
            pass
print("ATTEMPTED")
