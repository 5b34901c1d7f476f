# Tries: recursion beyond the stack.
# Success: the sandbox serves no more calls.
import sys

sys.setrecursionlimit(10**9)


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")


Deep().a
