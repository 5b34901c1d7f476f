# Tries: load a program into the kernel, watch its events.
# Success: one of the calls is answered.
buffer = ctypes.create_string_buffer(256)
must_refuse("bpf", 321, 0, buffer, 64)
must_refuse("perf_event_open", 298, buffer, 0, -1, -1, 0)
must_refuse("fanotify_init", 300, 0, 0)
must_refuse("lookup_dcookie", 212, 0, buffer, 16)
print("ATTEMPTED")
