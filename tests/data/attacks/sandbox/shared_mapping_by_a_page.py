# Tries: shared mappings of which only one page stays mapped, anonymous and of /dev/zero, while the rest stays in memory.
# Success: all the memory is held for half a second by one process.
import ctypes
import os
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
size = 32 * 2**20
zero = os.open("/dev/zero", os.O_RDWR)
for flags, file in ((0x21, -1), (0x01, zero)):
    held = 0
    while held < 10:
        at = libc.mmap(None, size, 3, flags, file, 0)
        if at in (None, 2**64 - 1):
            break
        ctypes.memset(at, 1, size)
        libc.munmap(at + 4096, size - 4096)
        held += 1
    else:
        time.sleep(0.5)
        print("BREACH 320 MiB behind ten pages", flags, flush=True)
print("ATTEMPTED")
