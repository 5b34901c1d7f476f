# Tries: crash the session.
# Success: the sandbox serves no more calls.
import ctypes

ctypes.memset(id(None), 0, 4096)
ctypes.string_at(8)
