# Tries: the kernel's keys, which no namespace of ours separates.
# Success: one of the calls is answered.
must_refuse("add_key", 248, b"user", b"rollwright", b"x", 1, -4)
must_refuse("request_key", 249, b"user", b"rollwright", 0, -4)
must_refuse("keyctl", 250, 0, -4, 1)
print("ATTEMPTED")
