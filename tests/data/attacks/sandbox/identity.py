# Tries: become another user; find a capability or a way to one.
# Success: one is held.
import glob

if os.getuid() == 0:
    print("BREACH user 0")
if call(105, 0)[0] == 0:
    print("BREACH setuid")
for name, number, arguments in (
    ("setgid", 106, (0,)), ("setreuid", 113, (0, 0)), ("setresuid", 117, (0, 0, 0)), ("setresgid", 119, (0, 0, 0)),
    ("setgroups", 116, (0, 0)), ("setfsuid", 122, (0,)),
):
    value, error = call(number, *arguments)
    if os.getuid() == 0 or os.getgid() == 0 or (value == 0 and name in {"setgroups"}):
        print("BREACH", name)
for line in open("/proc/self/status"):
    if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb")) and int(line.split()[1], 16):
        print("BREACH", line)
    if line.startswith("NoNewPrivs") and line.split()[1] != "1":
        print("BREACH", line)
    if line.startswith("Seccomp:") and line.split()[1] != "2":
        print("BREACH", line)
for name in ("uid_map", "gid_map", "setgroups", "oom_score_adj", "oom_adj", "loginuid", "projid_map"):
    for process in ("1", "self"):
        try:
            with open(f"/proc/{process}/{name}", "w") as file:
                file.write("-1000" if name.startswith("oom") else "0 0 1")
                file.flush()
            print("BREACH wrote", process, name)
        except OSError:
            pass
for path in glob.glob("/usr/bin/*") + glob.glob("/usr/sbin/*"):
    if os.path.isfile(path) and os.stat(path).st_mode & 0o6000:
        if not os.statvfs(path).f_flag & os.ST_NOSUID:
            print("BREACH", path, "gives another user's rights")
print("ATTEMPTED")
