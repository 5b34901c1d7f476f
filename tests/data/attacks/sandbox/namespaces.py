# Tries: new namespaces, in which it would be root.
# Success: one is made.
for name, flag in {
    "user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000,
    "uts": 0x4000000, "cgroup": 0x2000000, "time": 0x80,
}.items():
    must_refuse(f"unshare {name}", 272, flag)
    if name == "time":  # the bit means something else there
        continue
    value, error = call(56, flag | 17, 0, 0, 0, 0)
    if value == 0:
        os._exit(0)
    if value > 0:
        os.waitpid(value, 0)
        print("BREACH clone", name)
arguments = (ctypes.c_uint64 * 11)()
arguments[0], arguments[4] = 0x10000000, 17
value, error = call(435, arguments, 88)
if value == 0:
    os._exit(0)
if value > 0:
    print("BREACH clone3")
for name in ("user", "mnt", "pid", "net"):
    for process in ("1", "self"):
        try:
            held = os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY)
        except OSError:
            continue
        must_refuse(f"setns {name} of {process}", 308, held, 0)
print("ATTEMPTED")
