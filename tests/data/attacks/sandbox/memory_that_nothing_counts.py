# Tries: memory in objects of the kernel's.
# Success: one of the calls is answered.
must_refuse("memfd_create", 319, b"x", 0)
must_refuse("memfd_secret", 447, 0)
must_refuse("shmget", 29, 0, 2**20, 0o1600)
must_refuse("msgget", 68, 0, 0o1600)
must_refuse("semget", 64, 0, 100, 0o1600)
must_refuse("mq_open", 240, b"name", 0o102, 0o600, 0)
print("ATTEMPTED")
