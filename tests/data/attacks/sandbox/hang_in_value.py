# Tries: a last expression whose text never ends.
# Success: the call lasts longer than its limit.
class Endless:
    def __repr__(self):
        while True:
            pass


Endless()
