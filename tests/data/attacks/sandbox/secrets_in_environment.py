# Tries: find the variables of whoever started the pool: its own, those of others, those in memory.
# Success: the canary is printed.
import glob
import os
import re

pattern = re.compile(rb"CANARY-[0-9a-f]{32}")
for name, value in os.environ.items():
    if pattern.search(os.fsencode(value)):
        print(name, value)
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/task/*/environ"):
    try:
        for found in pattern.findall(open(path, "rb").read()):
            print(path, found)
    except OSError:
        pass
for line in open("/proc/self/maps"):
    bounds, permissions, *_ = line.split()
    if permissions[0] != "r" or line.rstrip().endswith(("[vvar]", "[vvar_vclock]", "[vsyscall]")):
        continue
    start, end = (int(bound, 16) for bound in bounds.split("-"))
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(start)
            while start < end:
                block = memory.read(min(end - start, 2**20))
                if not block:
                    break
                start += len(block)
                for found in pattern.findall(block):
                    print("memory", found)
    except OSError:
        pass
print("ATTEMPTED")
