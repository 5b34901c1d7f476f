# Tries: processes of others: those in /proc, and signals to any number.
# Success: one is seen beyond the sandbox's own few.
import os

seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
for process in range(2, 70_000, 1):
    if process in seen:
        continue
    try:
        os.kill(process, 0)
        print("BREACH", process)
    except ProcessLookupError:
        pass
    except PermissionError:
        print("BREACH another's process", process)
if len(seen) > 4:
    print("BREACH processes", seen)
print("ATTEMPTED")
