# Tries: calls through a ring, which a filter does not see.
# Success: a ring is made.
must_refuse("io_uring_setup", 425, 8, ctypes.create_string_buffer(256))
must_refuse("io_uring_enter", 426, 0, 0, 0, 0, 0, 0)
must_refuse("io_uring_register", 427, 0, 0, 0, 0)
print("ATTEMPTED")
