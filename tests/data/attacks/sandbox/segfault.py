# Tries: crash the interpreter.
# Success: the result is none, or a dump of memory is written.
import ctypes

ctypes.string_at(8)
