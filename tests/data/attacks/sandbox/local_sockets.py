# Tries: local sockets of others, by abstract name and by path.
# Success: one is reached.
import os
import socket

for name in ("\0@ABSTRACT@", "@CANARY_FOLDER@/listener", "/run/dbus/system_bus_socket", "/var/run/docker.sock", "/run/systemd/private", "/tmp/.X11-unix/X0"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as client:
            try:
                client.connect(name)
                print("BREACH", name)
            except OSError:
                pass
try:
    names = open("/proc/net/unix").read()
    if "@ABSTRACT@" in names:
        print("BREACH names of others")
except OSError:
    pass
print("ATTEMPTED")
