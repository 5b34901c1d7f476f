# Tries: end the session with an exit whose code is an object that raises.
# Success: the sandbox serves no more calls.
class Code:
    def __str__(self):
        raise KeyboardInterrupt

    def __index__(self):
        raise GeneratorExit


raise SystemExit(Code())
