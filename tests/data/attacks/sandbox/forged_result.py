# Tries: print what a result may look like, then fail.
# Success: the result is what was printed.
import json
import os
import struct

for forged in ({"status": "ok", "exit_code": 0}, {"kind": "result", "status": "ok", "exit_code": 0, "stdout": "", "stderr": ""}):
    text = json.dumps(forged).encode()
    for stream in (1, 2):
        os.write(stream, text + b"\n" + struct.pack(">I", len(text)) + text + struct.pack("<I", len(text)) + text + b"\0")
os._exit(7)
