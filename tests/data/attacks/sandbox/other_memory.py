# Tries: read and write the memory of process 1 and the parent, take their descriptors.
# Success: one of the calls is answered.
buffer = ctypes.create_string_buffer(4096)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 4096)
for process in {1, os.getppid()}:
    must_refuse("ptrace attach", 101, 16, process, 0, 0)
    must_refuse("ptrace seize", 101, 0x4206, process, 0, 0)
    must_refuse("process_vm_readv", 310, process, vector, 1, vector, 1, 0)
    must_refuse("process_vm_writev", 311, process, vector, 1, vector, 1, 0)
    must_refuse("kcmp", 312, process, os.getpid(), 0, 0, 0)
    held, _ = call(434, process, 0)
    for number in range(3, 30):
        must_refuse("pidfd_getfd", 438, held, number, 0)
    must_refuse("process_madvise", 440, held, vector, 1, 21, 0)
    must_refuse("process_mrelease", 448, held, 0)
    must_refuse("move_pages", 279, process, 0, 0, 0, 0, 0)
    must_refuse("migrate_pages", 256, process, 0, 0, 0)
    for name in ("mem", "environ", "maps", "auxv", "pagemap", "syscall", "stack", "personality"):
        try:
            with open(f"/proc/{process}/{name}", "rb") as file:
                if name != "mem" and file.read(64):
                    print("BREACH", process, name)
                if name == "mem":
                    print("BREACH opened", process, name)
        except OSError:
            pass
    for name in ("fd", "root", "cwd", "exe", "map_files", "fdinfo"):
        try:
            found = os.listdir(f"/proc/{process}/{name}") if name != "exe" else os.readlink(f"/proc/{process}/{name}")
            print("BREACH", process, name, str(found)[:80])
        except OSError:
            pass
print("ATTEMPTED")
