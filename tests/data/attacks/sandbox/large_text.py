# Tries: a value of the session whose text is larger than memory.
# Success: the sandbox serves no more calls.
class Large:
    def __repr__(self):
        return "x" * 2**29


Large()
