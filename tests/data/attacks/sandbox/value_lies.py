# Tries: a value whose text is no text.
# Success: the sandbox serves no more calls.
class Lie(str):
    def __str__(self):
        return self

    def encode(self, *_):
        raise KeyboardInterrupt

    def __len__(self):
        return -1


class Value:
    def __repr__(self):
        return Lie("\ud800lie")


Value()
