# Tries: reach a server of this machine and names outside.
# Success: the server is reached.
import socket

for address in ("127.0.0.1", "localhost", "0.0.0.0", "::1", "10.0.0.1", "169.254.169.254"):
    try:
        socket.create_connection((address, @TCP_PORT@), timeout=0.3)
        print("BREACH", address)
    except OSError:
        pass
for name in ("example.com", "localhost"):
    try:
        print("BREACH" if socket.getaddrinfo(name, 80) and name != "localhost" else "", name)
    except OSError:
        pass
print("ATTEMPTED")
