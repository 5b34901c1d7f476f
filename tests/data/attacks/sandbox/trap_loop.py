# Tries: links that go in circles.
# Success: `files` never ends.
import os

os.symlink("trap", "trap")
os.mkdir("loop")
os.symlink("..", "loop/up")
os.symlink("/work", "loop/work")
os.symlink("/proc", "loop/proc")
print("ATTEMPTED")
