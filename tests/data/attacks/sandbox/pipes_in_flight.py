# Tries: full pipes that travel inside sockets.
# Success: more than 128 MiB are held for half a second.
import array
import os
import socket
import time

keep = []
held = 0
try:
    while held < 2**27 + 2**24:
        carrier = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        keep.append(carrier)
        for _ in range(50):
            ends = os.pipe()
            os.set_blocking(ends[1], False)
            try:
                while True:
                    held += os.write(ends[1], bytes(65536))
            except BlockingIOError:
                pass
            sent = array.array("i", ends)
            carrier[0].sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
            for end in ends:
                os.close(end)
except OSError as error:
    print(error)
time.sleep(0.5)
if held > 2**27:
    print("BREACH", held, "bytes in flight")
print("ATTEMPTED", held)
