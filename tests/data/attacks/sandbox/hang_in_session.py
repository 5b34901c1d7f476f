# Tries: a cell that never ends, in the session that holds the names.
# Success: the call lasts longer than its limit, or the sandbox serves no more calls.
import itertools

sum(1 for _ in itertools.repeat(None))
