"""The fork server as it is sent into a sandbox: compiled here, loaded there, in no file of either side."""

import hashlib
import marshal
from dataclasses import dataclass
from pathlib import Path

from rollwright.sandboxes.inside import SOURCES

__all__ = ["BOOT", "Payload", "compiled_payload"]

PREFIX = "rollwright.sandboxes.inside"
BOOT = """
import marshal, os, sys
def take(size):
    data = b""
    while len(data) < size:
        piece = os.read(3, size - len(data))
        if not piece:
            os._exit(1)
        data += piece
    return data
module = type(sys)
packages = ("rollwright", "rollwright.sandboxes", "rollwright.sandboxes.inside")
for name in packages:
    sys.modules[name] = module(name)
    sys.modules[name].__path__ = []
names = []
for name, code in marshal.loads(take(int.from_bytes(take(8), "big"))):
    sys.modules[name] = made = module(name)
    made.__file__ = code.co_filename
    names.append(name)
    exec(code, made.__dict__)
serve = made.serve
for name in (*names, *packages):
    del sys.modules[name]
del made, take, module, packages, names, name, code
try:
    serve()
finally:
    os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Payload:
    """What is sent first, and a digest of what it was compiled from."""

    data: bytes
    digest: str


def compiled_payload() -> Payload:
    """The modules that run inside, in the order in which they are run."""
    folder = Path(__file__).parent / "inside"
    sources = {name: (folder / f"{name}.py").read_bytes() for name in SOURCES}
    codes = [(f"{PREFIX}.{name}", compile(source, f"<{name}>", "exec")) for name, source in sources.items()]
    marshalled = marshal.dumps(codes)
    digest = hashlib.sha256(BOOT.encode() + b"".join(sources.values())).hexdigest()
    return Payload(len(marshalled).to_bytes(8, "big") + marshalled, digest)
