# Tries: source that crashes or stalls the parser.
# Success: the sandbox serves no more calls.
try:
    compile("(" * 200_000, "deep", "exec")
except (SyntaxError, MemoryError, RecursionError):
    pass
compile("-" * 100_000 + "1", "deeper", "eval")
