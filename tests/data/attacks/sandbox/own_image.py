# Tries: overwrite the interpreter through its own image, and what is installed.
# Success: one of them opens for writing.
import os
import site
import sys

targets = ["/proc/self/exe", sys.executable, os.path.realpath(sys.executable), os.__file__, os.path.realpath("/bin/sh")]
targets += [os.path.join(folder, "rollwright-attack-mark") for folder in [*sys.path, *site.getsitepackages(), os.path.dirname(os.__file__), "/usr/lib", "/lib", "/etc", "/usr/local"] if folder not in {"", "/work", "/tmp"}]
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    if path.startswith("/"):
        targets.append(path)
for target in targets:
    if target.startswith(("/work/", "/tmp/", "/dev/")):
        continue
    for flags in (os.O_WRONLY, os.O_WRONLY | os.O_CREAT):
        try:
            os.close(os.open(target, flags))
            print("BREACH", target)
        except OSError:
            pass
    try:
        os.rename(target, target + "2")
        print("BREACH renamed", target)
    except OSError:
        pass
print("ATTEMPTED")
