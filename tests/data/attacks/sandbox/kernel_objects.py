# Tries: memory of the kernel in small objects: watches, timers, locks, queued signals.
# Success: more than 25,000 of them.
import ctypes
import fcntl
import os
import signal

made = 0
libc = ctypes.CDLL(None)
try:
    file = os.open("locks", os.O_CREAT | os.O_RDWR)
    for at in range(0, 6_000, 2):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, at)
        made += 1
except OSError:
    pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65))
for _ in range(20_000):
    if libc.sigqueue(os.getpid(), 40, None) != 0:
        break
    made += 1
watch = libc.inotify_init()
os.mkdir("watched")
for number in range(5_000):
    try:
        os.mkdir(f"watched/{number}")
    except OSError:
        break
    if libc.inotify_add_watch(watch, f"watched/{number}".encode(), 0xFFF) < 0:
        break
    made += 1
if made > 25_000:
    print("BREACH", made)
print("ATTEMPTED", made)
