# Tries: a chain of 100,000 exceptions, each the reason of the next.
# Success: the result is none.
error = None
for number in range(100_000):
    following = ValueError(f"line {number}\n" * 3)
    following.__cause__ = error
    error = following
raise error
