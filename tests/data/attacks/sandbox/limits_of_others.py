# Tries: limits and priorities of process 1 and of its own, upward.
# Success: one is changed.
import resource

changed = (ctypes.c_uint64 * 2)(1, 1)
before = (ctypes.c_uint64 * 2)()
for process in {1, os.getppid()}:
    must_refuse("prlimit set", 302, process, 7, changed, before)
    must_refuse("prlimit read", 302, process, 7, 0, before)
    for policy in (0, 1, 2, 3, 5):
        must_refuse("sched_setscheduler", 144, process, policy, (ctypes.c_int * 1)(0))
    must_refuse("setpriority", 141, 0, process, 19)
    must_refuse("sched_setaffinity", 203, process, 8, (ctypes.c_uint64 * 1)(1))
    must_refuse("ioprio_set", 251, 1, process, 0)
for name in ("RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_CPU"):
    kind = vars(resource)[name]
    soft, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        print("BREACH no limit", name)
        continue
    try:
        resource.setrlimit(kind, (hard + 1, hard + 1))
        print("BREACH raised", name)
    except (OSError, ValueError):
        pass
if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
    print("BREACH core dumps")
for policy in (1, 2):
    must_refuse("sched_setscheduler self", 144, 0, policy, (ctypes.c_int * 1)(10))
must_refuse("nice below", 141, 0, 0, -5)
print("ATTEMPTED")
