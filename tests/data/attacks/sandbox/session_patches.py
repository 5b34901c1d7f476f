# Tries: patch what later programs use.
# Success: the next program of the sandbox runs with the patches.
import builtins
import os
import sys

builtins.len = lambda _: 99
builtins.int = lambda _: 99
builtins.print = None
os.fork = os.execve = os._exit = None
sys.modules.clear()
