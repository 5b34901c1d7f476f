# Tries: mislead the clocks by which it is measured.
# Success: one of them may be set.
import ctypes
import time

for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC):
    try:
        time.clock_settime(clock, 0)
        print("BREACH clock", clock)
    except OSError:
        pass
for path in ("/proc/self/timens_offsets", "/proc/uptime", "/dev/rtc", "/dev/rtc0"):
    try:
        with open(path, "w") as file:
            file.write("monotonic 100000 0\n")
        print("BREACH", path)
    except OSError:
        pass
print("ATTEMPTED")
