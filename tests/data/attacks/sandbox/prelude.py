# What programs that call the kernel by number begin with (x86-64).
import ctypes
import errno
import os

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
REFUSALS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT}


def call(number, *arguments):
    """The value of a system call, and the error's number."""
    ctypes.set_errno(0)
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return LIBC.syscall(ctypes.c_long(number), *passed), ctypes.get_errno()


def must_refuse(name, number, *arguments):
    """Say so where a call is not refused, be it only that the kernel looked at its arguments."""
    value, error = call(number, *arguments)
    if not (value == -1 and error in REFUSALS):
        print(f"BREACH {name} gave {value}, {errno.errorcode.get(error, error)}", flush=True)
