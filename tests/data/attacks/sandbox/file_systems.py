# Tries: fill each folder that can be written, wherever it is.
# Success: together more than the disk of the sandbox.
import os

held = 0
places = {"/", "/dev", "/dev/pts", "/dev/mqueue", "/run", "/run/lock", "/var", "/var/tmp", "/home", "/root", "/etc", "/usr", "/sys"}
places |= {line.split()[1] for line in open("/proc/mounts")}
for place in sorted(places):
    path = os.path.join(place, "rollwright-attack-mark")
    try:
        with open(path, "wb", buffering=0) as file:
            while held < 2**26:
                held += file.write(bytes(65536))
    except OSError:
        pass
if held > 8 * 2**20:
    print("BREACH", held, "bytes in files")
print("ATTEMPTED", held)
