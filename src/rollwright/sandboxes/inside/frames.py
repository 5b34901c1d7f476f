"""What crosses the wall: a length, a header of plain JSON, a blob of bytes. Nothing that could run."""

import json
import struct

__all__ = ["LENGTHS", "MAX_BLOB_BYTES", "MAX_HEADER_BYTES", "FrameError", "Header", "lengths_of", "opened", "packed"]

Header = dict[str, object]
LENGTHS = struct.Struct("!II")
MAX_HEADER_BYTES = 4 * 2**20
MAX_BLOB_BYTES = 256 * 2**20


class FrameError(ValueError):
    """Bytes that are no frame; whoever sent them is not talked to any more."""


def packed(header: Header, *blobs: bytes) -> bytes:
    """A frame of the header and the blobs one after the other; where they part is the header's to say."""
    head = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((LENGTHS.pack(len(head), sum(map(len, blobs))), head, *blobs))


def lengths_of(prefix: bytes) -> tuple[int, int]:
    """Sizes of header and blob, refused where they are past their bounds."""
    num_header, num_blob = LENGTHS.unpack(prefix)
    if num_header > MAX_HEADER_BYTES or num_blob > MAX_BLOB_BYTES:
        raise FrameError(f"a frame of {num_header} and {num_blob} bytes; at most {MAX_HEADER_BYTES}, {MAX_BLOB_BYTES}")
    return num_header, num_blob


def opened(head: bytes) -> Header:
    """The header, refused where it is not an object."""
    try:
        header = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame's header is not JSON") from error
    if not isinstance(header, dict):
        raise FrameError("a frame's header is not an object")
    return {str(name): value for name, value in header.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
