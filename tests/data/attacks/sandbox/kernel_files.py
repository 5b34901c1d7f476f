# Tries: write the machine's settings and devices, read its memory and log.
# Success: one of them opens.
import glob
import os

for path in glob.glob("/proc/sys/*/*") + glob.glob("/proc/sys/*/*/*") + ["/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/acpi/wakeup", "/proc/mtrr", "/proc/timer_list"]:
    try:
        value = open(path).read()
        with open(path, "w") as file:
            file.write(str(int(value) - 1))
        print("BREACH", path, value, open(path).read())
    except (OSError, ValueError):
        pass
for path in ("/proc/kcore", "/proc/kmsg", "/proc/kpageflags", "/proc/kpagecount", "/proc/keys", "/proc/key-users", "/proc/slabinfo", "/proc/vmallocinfo", "/dev/kmsg", "/dev/mem", "/dev/port", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock", "/dev/vhost-vsock", "/dev/sda", "/dev/vda", "/dev/loop-control", "/dev/tty", "/dev/console", "/dev/nvidia0", "/dev/nvidiactl"):
    try:
        held = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        if os.read(held, 16) or not path.startswith("/proc/key"):
            print("BREACH", path)
    except OSError:
        pass
for path in ("/sys", "/sys/fs/cgroup", "/sys/kernel/debug", "/proc/bus", "/proc/fs", "/proc/scsi"):
    try:
        found = os.listdir(path)
        if found and path.startswith("/sys"):
            print("BREACH", path, found[:5])
        with open(f"{path}/rollwright-attack-mark", "w"):
            print("BREACH wrote", path)
    except OSError:
        pass
for major, minor in ((1, 1), (8, 0), (254, 0)):
    try:
        os.mknod(f"/work/device{major}", 0o20600, os.makedev(major, minor))
        print("BREACH a device was made")
    except OSError:
        pass
print("ATTEMPTED")
