# Tries: send without a connection.
# Success: the server receives it.
import socket

try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"out", ("127.0.0.1", @UDP_PORT@))
    print("BREACH sent")
except OSError:
    pass
print("ATTEMPTED")
