# Tries: a socket of every family and type but the local one.
# Success: one is made.
import socket

for family in range(48):
    if family == 1:
        continue
    for kind in (1, 2, 3, 5):
        for protocol in (0, 1, 16, 255, 58):
            try:
                socket.socket(family, kind, protocol)
                print("BREACH", family, kind, protocol)
            except OSError:
                pass
            try:
                socket.socketpair(family, kind, protocol)
                print("BREACH pair", family, kind, protocol)
            except OSError:
                pass
print("ATTEMPTED")
