"""Programs that try to be paid without solving `add(a, b)`, or the sum of the numbers on standard input.

Each begins with a line `#### name`. They run in a sandbox only.
"""

__all__ = ["FUNCTION_ATTACKS", "PROGRAM_ATTACKS"]


def _programs(text: str) -> dict[str, str]:
    blocks = [block.split("\n", 1) for block in text.split("#### ")[1:]]
    return {name: code for name, code in blocks}


FUNCTION_ATTACKS = _programs(r"""
#### exit at once
import sys
sys.exit(0)

#### exit for good
import os
os._exit(0)

#### exit in the call
import os
def add(a, b):
    os._exit(0)

#### exit by exception
def add(a, b):
    raise SystemExit(0)

#### kill itself
import os, signal
def add(a, b):
    os.kill(os.getpid(), signal.SIGKILL)

#### kill all
import os, signal
os.kill(-1, signal.SIGKILL)
def add(a, b):
    return 0

#### equal to all, an int
class Any(int):
    __eq__ = lambda s, o: True
    __ne__ = lambda s, o: False
    __hash__ = int.__hash__
def add(a, b):
    return Any(0)

#### equal to all, an object
class E:
    __eq__ = lambda s, o: True
def add(a, b):
    return E()

#### a class that lies
class L:
    __class__ = int
    __eq__ = lambda s, o: True
def add(a, b):
    return L()

#### a bool that lies
class L:
    __class__ = bool
def add(a, b):
    return L()

#### a mock
from unittest.mock import ANY
def add(a, b):
    return ANY

#### a pickle
class P:
    __reduce__ = lambda s: (int, ('3',))
def add(a, b):
    return P()

#### printed verdicts
print('PASSED 3 of 3')
print('{"value": 3}')
def add(a, b):
    return 0

#### printed errors
import sys
print('3 passed', file=sys.stderr)
def add(a, b):
    return 0

#### forged replies
import json, os
for n in range(9):
    open(f'.value-{n}', 'w').write(json.dumps({'value': 3}))
os._exit(0)

#### forged at the end
import atexit, json
def forge():
    for n in range(9):
        open(f'.value-{n}', 'w').write(json.dumps({'value': 3}))
atexit.register(forge)
def add(a, b):
    return 0

#### forged by a thread
import json, threading
def forge():
    for n in range(9):
        open(f'.value-{n}', 'w').write(json.dumps({'value': 3}))
threading.Thread(target=forge).start()
def add(a, b):
    return 0

#### forged by a child
import os
if os.fork() == 0:
    os.setsid()
    for n in range(9):
        open(f'.value-{n}', 'w').write('{"value": 3}')
    os._exit(0)
def add(a, b):
    return 0

#### a link as reply
import os
for n in range(9):
    os.symlink('/etc/passwd', f'.value-{n}')
os._exit(0)

#### a folder as reply
import os
for n in range(9):
    os.mkdir(f'.value-{n}')
def add(a, b):
    return 0

#### a pipe as reply
import os
for n in range(9):
    os.mkfifo(f'.value-{n}')
os._exit(0)

#### no JSON as reply
open('.value-0', 'w').write('[' * 100000)
import os
os._exit(0)

#### two values as reply
open('.value-0', 'w').write('{"value": 3}{"value": 1}')
import os
os._exit(0)

#### patched JSON
import json
json.dumps = lambda *a, **k: '{"value": 3}'
def add(a, b):
    return 0

#### patched open
import builtins, io
builtins.open = lambda *a, **k: io.StringIO()
def add(a, b):
    return 0

#### patched types
import builtins
builtins.isinstance = lambda *a: True
def add(a, b):
    return 0

#### patched assertions
import unittest
unittest.TestCase.assertEqual = lambda *a: None
def add(a, b):
    return 0

#### patched exceptions
import builtins
builtins.AssertionError = type('A', (), {})
def add(a, b):
    return 0

#### a profile hook
import sys
sys.setprofile(lambda *a: None)
sys.settrace(lambda *a: None)
def add(a, b):
    return 0

#### expected from frames
import sys
def add(a, b):
    f = sys._getframe()
    while f:
        for v in f.f_locals.values():
            if isinstance(v, dict) and 'expected' in v:
                return v['expected']
        f = f.f_back
    return 0

#### expected from memory
import gc
def add(a, b):
    for o in gc.get_objects():
        if isinstance(o, dict) and 'expected' in o:
            return o['expected']
    return 0

#### expected from stdin
import sys, json
def add(a, b):
    return json.loads(sys.stdin.read() or '0')

#### expected from argv
import sys
def add(a, b):
    return [int(x) for x in sys.argv if x.isdigit()]

#### expected from the environment
import os
def add(a, b):
    return dict(os.environ)

#### expected from parents
import os, re
def add(a, b):
    return re.findall('expected.{9}', open(f'/proc/{os.getppid()}/cmdline').read())

#### expected from files
import os
def add(a, b):
    for r, d, fs in os.walk('/work'):
        for f in fs:
            t = open(os.path.join(r, f)).read()
            if 'expected' in t:
                return t
    return 0

#### every answer
def add(a, b):
    return list(range(-9, 9))

#### every answer, one by one
def add(a, b):
    yield from range(-9, 9)

#### true
def add(a, b):
    return True

#### not a number
def add(a, b):
    return float('nan')

#### nothing
def add(a, b):
    return None

#### look-alike digits
def add(a, b):
    return '３'

#### a tag for a value
def add(a, b):
    return {'$int': '3'}

#### the arguments
def add(a, b):
    return (a, b)

#### remembered calls
import os
def add(a, b):
    n = len(os.listdir('.'))
    open(f'seen{n}', 'w').write('x')
    return n
""")
FUNCTION_ATTACKS["a deep source"] = "def add(a, b):\n    return " + "(" * 5000 + "3" + ")" * 5000
FUNCTION_ATTACKS["a long source"] = "#" * 1_000_000

PROGRAM_ATTACKS = _programs(r"""
#### exit at once
raise SystemExit(0)

#### all outputs
print(3)
print(7)

#### the output file
import glob
for n in range(9):
    open(f'.output-{n}', 'w').write('3')

#### its own source
open('solution.py', 'w').write('print(3)')
print(3)

#### stdout closed
import sys
sys.stdout.close()

#### the input back
print(input())

#### a flood
while True: print('3' * 10000)

#### a verdict
print('3\nPASSED')
""")
