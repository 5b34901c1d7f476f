# Tries: system calls by the 32-bit entry, which a filter of 64-bit numbers does not know.
# Success: one is answered.
import mmap

code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")  # getpid
get_pid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
child = os.fork()
if child == 0:
    os._exit(0 if get_pid() == os.getpid() else 9)
if os.waitpid(child, 0)[1] == 0:
    print("BREACH int 0x80")
print("ATTEMPTED")
