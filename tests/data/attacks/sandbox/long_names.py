# Tries: names with control characters, invalid UTF-8 and the greatest length.
# Success: `files` fails, or its answer is no valid text.
import os

for name in (b"\xff\xfe", b"line\nbreak", b"\x1b[2J", b"x" * 255, b"\xed\xa0\x80", b" ", b"\\", b'"', b"..."):
    open(b"/work/" + name, "wb").close()
for number in range(300):
    os.mknod(f"{number:0250}")
print("ATTEMPTED")
