# Tries: replace the streams of the session by objects that raise, hang up or lie.
# Success: the sandbox serves no more calls.
import sys


class Evil:
    encoding = 7

    def __getattribute__(self, name):
        raise SystemExit(3)


print("ATTEMPTED", flush=True)
sys.stdout = sys.stderr = sys.stdin = Evil()
sys.displayhook = None
1
