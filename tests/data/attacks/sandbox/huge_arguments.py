# Tries: arguments and variables of two megabytes.
# Success: a look at the processes stalls or fails.
import os

try:
    os.execve("/bin/sh", ["sh", "-c", "echo ATTEMPTED"] + ["x" * 100_000] * 15, {"\n\x01=" * 9: "y" * 100_000})
except (OSError, ValueError):
    print("ATTEMPTED")
