# Tries: full sockets that travel inside other sockets, so that no process has a descriptor of them.
# Success: more than 256 MiB are held for half a second.
import array
import os
import socket
import time

keep = []
held = 0
try:
    while held < 2**28 + 2**24:
        carrier = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        keep.append(carrier)
        for _ in range(20):
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            for end in pair:
                end.setblocking(False)
                try:
                    while True:
                        held += end.send(bytes(65536))
                except BlockingIOError:
                    pass
            ends = array.array("i", [end.fileno() for end in pair])
            carrier[0].sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
            for end in pair:
                end.close()
except OSError as error:
    print(error)
time.sleep(0.5)
if held > 2**28:
    print("BREACH", held, "bytes in flight")
print("ATTEMPTED", held)
