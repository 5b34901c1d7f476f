# Tries: wait in the kernel for a child that holds its parent's memory (vfork) and waits for a pipe that nobody opens.
# Success: a process of the call cannot be ended.
import os

os.mkfifo("pipe")
os.posix_spawn(
    "/bin/sh", ["sh", "-c", ":"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "pipe", os.O_RDONLY, 0)]
)
