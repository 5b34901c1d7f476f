# Tries: memory in the buffers of pipes, enlarged, over several processes.
# Success: more than 128 MiB are held for half a second.
import fcntl
import os
import time

reader, writer = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        held = 0
        pipes = []
        try:
            while held < 2**26:
                pipes.append(os.pipe())
                os.set_blocking(pipes[-1][1], False)
                try:
                    fcntl.fcntl(pipes[-1][1], 1031, 2**20)
                except OSError:
                    pass
                try:
                    while True:
                        held += os.write(pipes[-1][1], bytes(65536))
                except BlockingIOError:
                    pass
        except OSError:
            pass
        os.write(writer, held.to_bytes(8, "little"))
        time.sleep(3600)
held = sum(int.from_bytes(os.read(reader, 8), "little") for _ in range(6))
time.sleep(0.5)
if held > 2**27:
    print("BREACH", held, "bytes in pipes")
print("ATTEMPTED", held)
