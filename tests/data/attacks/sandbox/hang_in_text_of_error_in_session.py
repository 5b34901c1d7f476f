# Tries: an exception whose text never ends, in the session.
# Success: the call lasts longer than its limit, or the sandbox serves no more calls.
class Endless(Exception):
    def __str__(self):
        while True:
            pass


raise Endless
