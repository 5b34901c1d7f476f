# Tries: every byte, invalid UTF-8, cut characters, lone surrogates, NUL.
# Success: the text of the result is no valid text.
import sys

sys.stdout.buffer.write(bytes(range(256)) * 100 + b"\xf0\x9f\x98" + b"\xed\xa0\x80" * 10 + b"\xff\xfe\x00")
sys.stdout.buffer.write("🙂".encode() * 3000 + b"\xf0\x9f")
sys.stderr.buffer.write(b"\xc0\xaf\xfe" * 5000)
print("ATTEMPTED")
