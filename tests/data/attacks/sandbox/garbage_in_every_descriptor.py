# Tries: bytes that are no frame, and lengths beyond reason, into every descriptor of the session.
# Success: the reader outside takes the memory that the length names, or fails otherwise than by a result.
import os

for number in range(3, 1024):
    for junk in (b"\xff\xff\xff\xff", b"{" * 5000, b"[" * 100_000, b"\x00" * 64, b'{"a":' * 50_000, b"1" * 100_000 + b"\n"):
        try:
            os.set_blocking(number, False)
            os.write(number, junk)
        except OSError:
            pass
