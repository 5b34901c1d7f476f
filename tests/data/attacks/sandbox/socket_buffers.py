# Tries: memory in the buffers of sockets, over several processes.
# Success: more than 256 MiB are held for half a second.
import os
import socket
import time

reader, writer = os.pipe()
for _ in range(10):
    if os.fork() == 0:
        held = 0
        pairs = []
        try:
            while held < 2**26:
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                pairs.append(pair)
                for end in pair:
                    end.setblocking(False)
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**30)
                    try:
                        while True:
                            held += end.send(bytes(100_000))
                    except OSError:
                        pass
        except OSError:
            pass
        os.write(writer, held.to_bytes(8, "little"))
        time.sleep(3600)
held = sum(int.from_bytes(os.read(reader, 8), "little") for _ in range(10))
time.sleep(0.5)
if held > 2**28:
    print("BREACH", held, "bytes in sockets")
print("ATTEMPTED", held)
