"""Tokens and the bytes they stand for; two ways of encoding, so that foreign text never becomes a control token."""

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from tokenizers import Tokenizer

from rollwright.record import Ids, ids
from rollwright.rendering.errors import RenderingError

__all__ = ["Codec", "EncodedText", "codec_of"]

EncodedText = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Token ids, and for each the half-open range of characters that it came from."""


class PlainEncoder(Protocol):
    """Encodes text in which nothing is a control token."""

    def __call__(self, text: str, /) -> EncodedText:
        """Ids and character ranges of `text`."""
        ...


class Codec:
    """Encodes and decodes with one tokenizer; knows its control tokens.

    A control token is one that the tokenizer recognises in raw text before it merges anything: end of turn, tags of
    tool calls and reasoning, and the like. Runs of white space that some tokenizers add are not.
    """

    def __init__(
        self, backend: Tokenizer, controls: Mapping[str, int], token_bytes: Mapping[int, bytes], plain: PlainEncoder
    ) -> None:
        self._backend = backend
        self._controls = controls
        self._control_ids = frozenset(controls.values())
        self._token_bytes = token_bytes
        self._plain = plain

    @property
    def controls(self) -> Mapping[str, int]:
        """Control tokens by their text."""
        return self._controls

    @property
    def control_ids(self) -> frozenset[int]:
        """Ids of the control tokens."""
        return self._control_ids

    def bytes_of(self, token_ids: Sequence[int] | Ids) -> list[bytes]:
        """What each token stands for, UTF-8; a character may be spread over several tokens.

        Raises:
            RenderingError: for an id that the tokenizer does not have.
        """
        table = self._token_bytes
        try:
            return [table[int(i)] for i in token_ids]
        except KeyError as error:
            raise RenderingError(
                f"token id {error} is not in the tokenizer ({len(table)} tokens); engine and renderer must share one "
                "tokenizer folder."
            ) from error

    def decode(self, token_ids: Sequence[int] | Ids) -> str:
        """Text of tokens, control tokens included; broken UTF-8 is replaced."""
        return b"".join(self.bytes_of(token_ids)).decode("utf-8", errors="replace")

    def encode_plain(self, text: str) -> EncodedText:
        """Encode foreign text: what looks like a control token stays ordinary text."""
        return self._plain(text)

    def split_controls(self, text: str) -> tuple[int | str, ...]:
        """Cut trusted text (a template's) into control tokens and the text between them."""
        encoding = self._backend.encode(text, add_special_tokens=False)
        parts: list[int | str] = []
        done = 0
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if token in self._control_ids:
                if start > done:
                    parts.append(text[done:start])
                parts.append(token)
                done = max(done, end)
        if done < len(text):
            parts.append(text[done:])
        return tuple(parts)

    def encode_with_tags(self, text: str, tags: Sequence[str]) -> Ids:
        """Encode text in which these tags, and nothing else, may become control tokens."""
        found: list[int] = []
        known = sorted((tag for tag in tags if tag in self._controls), key=len, reverse=True)
        rest = text
        while rest:
            cut = min(((at, tag) for tag in known if (at := rest.find(tag)) >= 0), default=None)
            if cut is None:
                found.extend(self.encode_plain(rest)[0])
                break
            at, tag = cut
            found.extend(self.encode_plain(rest[:at])[0])
            found.append(self._controls[tag])
            rest = rest[at + len(tag) :]
        return ids(found)


def codec_of(backend: Tokenizer) -> Codec:
    """Build the codec of a fast tokenizer.

    Raises:
        RenderingError: where tokens do not stand for bytes (a WordPiece decoder, say), so that nothing can be appended.
    """
    spec = json.loads(backend.to_str())
    added = backend.get_added_tokens_decoder()
    controls = {token.content: i for i, token in added.items() if not token.content.isspace()}
    names = {i: name for name, i in backend.get_vocab(with_added_tokens=True).items()}
    read = _byte_reader(json.dumps(spec.get("decoder")))
    token_bytes = {i: name.encode() if i in added else read(name) for i, name in names.items()}
    return Codec(backend, controls, token_bytes, _plain_encoder(spec, names, controls))


def _plain_encoder(spec: dict[str, object], names: Mapping[int, str], controls: Mapping[str, int]) -> PlainEncoder:
    """The tokenizer without its control tokens."""
    added = spec.get("added_tokens")
    kept = [token for token in added if str(token["content"]).isspace()] if isinstance(added, list) else []
    plain = Tokenizer.from_str(json.dumps({**spec, "added_tokens": kept, "post_processor": None}))
    plain.no_truncation()
    plain.no_padding()
    by_name = {name: i for i, name in names.items()} if kept else None
    control_ids = frozenset(controls.values())

    def encode_once(text: str) -> EncodedText:
        encoding = plain.encode(text, add_special_tokens=False)
        found = encoding.ids if by_name is None else [by_name[token] for token in encoding.tokens]
        return tuple(found), tuple(encoding.offsets)

    def encode(text: str) -> EncodedText:
        found = encode_once(text)
        if control_ids.isdisjoint(found[0]):
            return found
        # The model itself holds the control token as a piece: cut the text inside every occurrence.
        token_ids: list[int] = []
        ranges: list[tuple[int, int]] = []
        start = 0
        for end in [*_cuts_inside(text, controls), len(text)]:
            part_ids, part_ranges = encode_once(text[start:end])
            token_ids.extend(part_ids)
            ranges.extend((a + start, b + start) for a, b in part_ranges)
            start = end
        if not control_ids.isdisjoint(token_ids):
            raise RenderingError(
                f"text of {len(text)} characters becomes a control token whatever is done; this tokenizer cannot "
                "carry foreign text safely. Use one whose control tokens are not pieces of its model."
            )
        return tuple(token_ids), tuple(ranges)

    return encode


def _cuts_inside(text: str, controls: Mapping[str, int]) -> list[int]:
    cuts: set[int] = set()
    for name in controls:
        at = text.find(name)
        while at >= 0:
            cuts.update(range(at + 1, at + len(name)))
            at = text.find(name, at + 1)
    return sorted(cuts)


class _ByteReader(Protocol):
    def __call__(self, name: str, /) -> bytes: ...


def _byte_reader(decoder: str) -> _ByteReader:
    """How the name of a token in the vocabulary reads as bytes."""
    if '"ByteLevel"' in decoder:
        alphabet = _byte_level_alphabet()

        def read_byte_level(name: str) -> bytes:
            return bytes(alphabet[c] for c in name) if all(c in alphabet for c in name) else name.encode()

        return read_byte_level
    if '"ByteFallback"' in decoder or '"Metaspace"' in decoder or "\\u2581" in decoder:

        def read_metaspace(name: str) -> bytes:
            if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
                return bytes([int(name[3:5], 16)])
            return name.replace("\u2581", " ").encode()

        return read_metaspace
    raise RenderingError(
        f"the tokenizer's decoder is {decoder[:120]}; deltas need one whose tokens stand for bytes (byte-level BPE, or "
        "SentencePiece pieces). Use the tokenizer of a causal language model."
    )


def _byte_level_alphabet() -> dict[str, int]:
    """The letter that byte-level BPE writes for each byte (GPT-2)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    alphabet.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return alphabet
