"""What crosses the wall: lengths, a header of plain values, a blob of bytes. What comes out of it is JSON."""

import marshal
import struct
from _json import encode_basestring_ascii

__all__ = ["LENGTHS", "FrameError", "Header", "answer_head", "lengths_of", "packed", "request", "request_header"]

Header = dict[str, object]
LENGTHS = struct.Struct("!II")
MAX_HEADER_BYTES = 4 * 2**20
MAX_BLOB_BYTES = 256 * 2**20


class FrameError(ValueError):
    """Bytes that are no frame; whoever sent them is not talked to any more."""


def packed(head: bytes, *blobs: bytes) -> bytes:
    """A frame of a header and blobs one after the other; where they part is the header's to say."""
    return b"".join((LENGTHS.pack(len(head), sum(map(len, blobs))), head, *blobs))


def request(header: Header, *blobs: bytes) -> bytes:
    """A frame on its way in, in the interpreter's own form, which is quick to read: it comes from the trusted side."""
    return packed(marshal.dumps(header), *blobs)


def request_header(head: bytes) -> Header:
    """The header of a request; nothing that came from inside is ever read so."""
    return marshal.loads(head)


def answer_head(header: Header) -> bytes:
    """A header on its way out, as JSON."""
    members = ",".join(f"{encode_basestring_ascii(name)}:{_json_of(value)}" for name, value in header.items())
    return f"{{{members}}}".encode("ascii")


def lengths_of(prefix: bytes) -> tuple[int, int]:
    """Sizes of header and blob, refused where they are past their bounds."""
    num_header, num_blob = LENGTHS.unpack(prefix)
    if num_header > MAX_HEADER_BYTES or num_blob > MAX_BLOB_BYTES:
        raise FrameError(f"a frame of {num_header} and {num_blob} bytes; at most {MAX_HEADER_BYTES}, {MAX_BLOB_BYTES}")
    return num_header, num_blob


def _json_of(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", False: "false", True: "true"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{','.join(map(_json_of, value))}]"  # pyright: ignore[reportUnknownArgumentType] - read JSON
    return encode_basestring_ascii(str(value))
