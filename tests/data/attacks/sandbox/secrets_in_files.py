# Tries: find files of whoever started the pool, and of neighbors.
# Success: the canary is printed, or a folder of persons is there.
import os
import re

pattern = re.compile(rb"CANARY-[0-9a-f]{32}")
for path in ("/root", "/home", "/etc/passwd", "/etc/shadow", "/etc/hosts", "/etc/resolv.conf", "/etc/machine-id", "/etc/ssh", "/var", "/run", "/mnt", "/srv", "/opt/secrets", "/boot", "@CANARY_FOLDER@", "@PROJECT@", "/proc/1/root/root", "/proc/1/cwd"):
    try:
        if not "@PREFIX@/".startswith(path + "/") or len(os.listdir(path)) > 1:
            print("BREACH", path, os.stat(path))
    except OSError:
        pass
seen = 0
for top in ("/", "/proc/1/root", "/proc/self/root"):
    for folder, folders, names in os.walk(top):
        if folder.startswith(("/usr", "/lib", "/proc/", "/sys", "@PREFIX@")) and not folder.startswith(("/proc/1/root/work", "/proc/self/root/tmp")):
            folders.clear()
            continue
        for name in names:
            path = os.path.join(folder, name)
            seen += 1
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 2**20:
                    for found in pattern.findall(open(path, "rb").read()):
                        print(path, found)
            except OSError:
                pass
print("ATTEMPTED", seen)
