# Tries: reach the server's objects through frames and the collector: descriptors, code of other calls, channels.
# Success: it holds a connected socket, or text that is not its own.
import gc
import os
import socket
import stat
import sys

frame = sys._getframe()
while frame is not None:
    for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
        if isinstance(value, str) and "CANARY-" "" in value and "for name, value" not in value:
            print("BREACH text", name, value[:100])
    frame = frame.f_back
for found in gc.get_objects():
    if isinstance(found, socket.socket) and found.fileno() >= 0:
        print("BREACH socket", found)
for number in range(3, 1024):
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        continue
    if stat.S_ISSOCK(mode):
        print("BREACH descriptor", number, os.readlink(f"/proc/self/fd/{number}"))
print("ATTEMPTED")
