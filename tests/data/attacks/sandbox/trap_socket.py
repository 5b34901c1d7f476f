# Tries: a socket in place of a file.
# Success: a reader outside stalls or fails.
import socket

listener = socket.socket(socket.AF_UNIX)
listener.bind("trap")
listener.listen()
print("ATTEMPTED")
