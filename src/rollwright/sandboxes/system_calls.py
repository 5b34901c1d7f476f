"""The filter of system calls that stands before every program: a list of refusals, as instructions of the kernel's BPF.

Namespaces hide what is outside; the filter takes away the calls that reach around them, that hold memory no limit
counts, or that have been the way into kernels. Numbers that are newer than this list are refused too.
"""

import platform
import struct
from dataclasses import dataclass

from rollwright.sandboxes.errors import SandboxUnavailableError
from rollwright.sandboxes.sandbox import Isolation

__all__ = ["system_call_filter"]

EPERM, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT = 1, 38, 95, 97
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, REFUSE = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
X32_BIT = 0x4000_0000
NEW_NAMESPACES = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
SHARED_WITHOUT_A_FILE = 0x21
"""MAP_SHARED with MAP_ANONYMOUS: its memory stays, counted nowhere, while one page of it is mapped anywhere."""
AF_UNIX = 1
SOL_SOCKET, SO_SNDBUF = 1, 7
EVERY_PROCESS = 0xFFFF_FFFF
TERMINAL_TRICKS = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing in another's terminal."""

# Below 424 the architectures differ, from there on they are the same.
SHARED_NUMBERS = {
    "pidfd_getfd": 438, "process_madvise": 440, "process_mrelease": 448, "memfd_secret": 447, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "mount_setattr": 442, "quotactl_fd": 443,
    "set_mempolicy_home_node": 450,
}  # fmt: skip
LAST_NUMBER = 450
X86_64 = {
    "shmget": 29, "shmat": 30, "shmctl": 31, "clone": 56, "semget": 64, "msgget": 68, "ptrace": 101, "syslog": 103,
    "uselib": 134, "personality": 135, "ustat": 136, "sysfs": 139, "setpriority": 141, "sched_setparam": 142,
    "sched_setscheduler": 144, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "adjtimex": 159,
    "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
    "init_module": 175, "delete_module": 176, "get_kernel_syms": 177, "query_module": 178, "quotactl": 179,
    "nfsservctl": 180, "sched_setaffinity": 203, "io_setup": 206, "lookup_dcookie": 212, "remap_file_pages": 216,
    "clock_settime": 227, "mbind": 237, "set_mempolicy": 238, "mq_open": 240, "mq_unlink": 241, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251, "migrate_pages": 256, "unshare": 272,
    "vmsplice": 278, "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300, "prlimit64": 302,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "sched_setattr": 314, "memfd_create": 319,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "mmap": 9, "ioctl": 16, "socket": 41, "socketpair": 53,
    "setsockopt": 54,
}  # fmt: skip
AARCH64 = {
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7,
    "io_setup": 0, "lookup_dcookie": 18, "ioctl": 29, "ioprio_set": 30, "umount2": 39, "mount": 40, "pivot_root": 41,
    "nfsservctl": 42, "chroot": 51, "vhangup": 58, "quotactl": 60, "vmsplice": 75, "acct": 89, "personality": 92,
    "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116,
    "ptrace": 117, "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "setpriority": 140,
    "reboot": 142, "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "adjtimex": 171, "mq_open": 180,
    "mq_unlink": 181, "msgget": 186, "semget": 190, "shmget": 194, "shmctl": 195, "shmat": 196, "socket": 198,
    "socketpair": 199, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225,
    "remap_file_pages": 234, "mbind": 235, "set_mempolicy": 237, "migrate_pages": 238, "move_pages": 239,
    "perf_event_open": 241, "prlimit64": 261, "fanotify_init": 262, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "kcmp": 272, "finit_module": 273, "sched_setattr": 274, "memfd_create": 279, "bpf": 280, "userfaultfd": 282,
    "kexec_file_load": 294, "mmap": 222, "setsockopt": 208,
}  # fmt: skip
NOT_IMPLEMENTED = frozenset({"clone3", "io_uring_setup", "memfd_create", "memfd_secret", "io_setup", "mq_open"})
"""Answered as a kernel without them would: libraries then take another way."""
ATTRIBUTES = frozenset({"setxattr", "lsetxattr", "fsetxattr"})
"""Answered as a file system without them would: they hold content that no size of a file system bounds."""
ON_ITSELF = frozenset({"prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"})
"""Allowed where the process that is named is 0, the caller."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One way to call the kernel."""

    code: int
    kill: int
    numbers: dict[str, int]


ARCHITECTURES = {"x86_64": Architecture(0xC000_003E, 62, X86_64), "aarch64": Architecture(0xC000_00B7, 129, AARCH64)}


def system_call_filter(isolation: Isolation, machine: str | None = None) -> bytes:
    """The filter for this machine's architecture, or for the named one; all other architectures are killed.

    Without a namespace of processes it also refuses to signal every process at once: that would reach the user's own.

    Raises:
        SandboxUnavailableError: If there is no list of numbers for the architecture.
    """
    name = machine or platform.machine()
    if name not in ARCHITECTURES:
        raise SandboxUnavailableError(
            f"no filter of system calls for the architecture {name!r}; there is one for {', '.join(ARCHITECTURES)}"
        )
    architecture = ARCHITECTURES[name]
    numbers = architecture.numbers | SHARED_NUMBERS
    lines = [
        (LOAD, 0, 0, ARCHITECTURE_AT), (JUMP_EQUAL, 1, 0, architecture.code), (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT), (JUMP_AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, KILL),
        (JUMP_AT_LEAST, 0, 1, LAST_NUMBER + 1), (RETURN, 0, 0, REFUSE | ENOSYS),
    ]  # fmt: skip
    for call, number in sorted(numbers.items()):
        body = _on_arguments(call)
        lines += [(JUMP_EQUAL, 0, len(body), number), *body]
    if isolation == "process":
        refusal = [(LOAD, 0, 0, ARGUMENTS_AT), (JUMP_EQUAL, 0, 1, EVERY_PROCESS), (RETURN, 0, 0, REFUSE | EPERM)]
        lines += [(JUMP_EQUAL, 0, len(refusal), architecture.kill), *refusal]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _on_arguments(call: str) -> list[tuple[int, int, int, int]]:
    """What becomes of a call with this number; always ends in a return."""
    refusal = (RETURN, 0, 0, REFUSE | _error_of(call))
    allowance = (RETURN, 0, 0, ALLOW)
    if call in ON_ITSELF:
        return [(LOAD, 0, 0, ARGUMENTS_AT), (JUMP_EQUAL, 1, 0, 0), refusal, allowance]
    if call in ("setpriority", "ioprio_set"):
        return [(LOAD, 0, 0, ARGUMENTS_AT + 8), (JUMP_EQUAL, 1, 0, 0), refusal, *_only_processes(call), allowance]
    if call in ("clone", "mmap", "setsockopt"):
        return [*_where_refused(call), refusal, allowance]
    if call in ("socket", "socketpair"):
        family = (RETURN, 0, 0, REFUSE | EAFNOSUPPORT)
        return [(LOAD, 0, 0, ARGUMENTS_AT), (JUMP_EQUAL, 1, 0, AF_UNIX), family, allowance]
    if call == "ioctl":
        first, second = TERMINAL_TRICKS
        return [
            (LOAD, 0, 0, ARGUMENTS_AT + 8), (JUMP_EQUAL, 1, 0, first), (JUMP_EQUAL, 0, 1, second), refusal, allowance,
        ]  # fmt: skip
    return [refusal]


def _error_of(call: str) -> int:
    if call in NOT_IMPLEMENTED:
        return ENOSYS
    if call in ATTRIBUTES:
        return EOPNOTSUPP
    # A socket may always take a smaller buffer than was asked for: this one keeps the size that is counted for it.
    return 0 if call == "setsockopt" else EPERM


def _where_refused(call: str) -> list[tuple[int, int, int, int]]:
    """Goes on where the arguments are those that are refused, one further where they are not."""
    if call == "clone":
        return [(LOAD, 0, 0, ARGUMENTS_AT), (JUMP_ANY_BIT, 0, 1, NEW_NAMESPACES)]
    if call == "setsockopt":
        return [
            (LOAD, 0, 0, ARGUMENTS_AT + 8), (JUMP_EQUAL, 0, 3, SOL_SOCKET),
            (LOAD, 0, 0, ARGUMENTS_AT + 16), (JUMP_EQUAL, 0, 1, SO_SNDBUF),
        ]  # fmt: skip
    flags = SHARED_WITHOUT_A_FILE
    return [(LOAD, 0, 0, ARGUMENTS_AT + 24), (AND, 0, 0, flags), (JUMP_EQUAL, 0, 1, flags)]


def _only_processes(call: str) -> list[tuple[int, int, int, int]]:
    """The first argument says what the second names: 0 is a process for `setpriority`, 1 for `ioprio_set`."""
    which = 0 if call == "setpriority" else 1
    return [(LOAD, 0, 0, ARGUMENTS_AT), (JUMP_EQUAL, 1, 0, which), (RETURN, 0, 0, REFUSE | EPERM)]
