# Tries: user-space page faults, which stop the kernel in the middle of a copy.
# Success: a descriptor is given.
must_refuse("userfaultfd", 323, 1)
must_refuse("userfaultfd", 323, 0)
try:
    os.open("/dev/userfaultfd", os.O_RDWR)
    print("BREACH /dev/userfaultfd")
except OSError:
    pass
print("ATTEMPTED")
