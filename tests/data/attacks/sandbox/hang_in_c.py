# Tries: a computation of C code that looks at no signal.
# Success: the call lasts longer than its limit.
import re

re.match(r"(a+)+$", "a" * 64 + "b")
