# Tries: patch everything in the interpreter that may write the result, then fail.
# Success: the call is no failure.
import builtins
import gc
import json
import os
import sys
import traceback
import types

for module in list(sys.modules.values()):
    if isinstance(module, types.ModuleType) and module.__name__ not in {"os", "posix", "sys", "builtins", "gc", "types"}:
        for name in ("dumps", "dump", "format_exception", "print_exception", "print_exc", "send", "sendall", "waitpid"):
            if name in vars(module):
                vars(module)[name] = lambda *_, **__: '{"status": "ok", "exit_code": 0}'
sys.excepthook = sys.unraisablehook = lambda *_: None
for found in gc.get_objects():
    if isinstance(found, dict) and "status" in found:
        found["status"] = "ok"
raise RuntimeError
