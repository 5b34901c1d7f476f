# Tries: write marks wherever it may, by plain paths and through /proc.
# Success: one of them is outside afterwards.
import os

places = ["/", "/work", "/tmp", "/var/tmp", "/dev/shm", "/dev", "/root", "/home", "/run", "@CANARY_FOLDER@", "@PROJECT@"]
for place in places + [f"/proc/{process}/{way}{place}" for process in ("1", "self") for way in ("root", "cwd") for place in places] + ["../" * 20 + "tmp"]:
    try:
        with open(os.path.join(place, "rollwright-attack-mark"), "w") as file:
            file.write("mark")
    except OSError:
        pass
print("ATTEMPTED")
