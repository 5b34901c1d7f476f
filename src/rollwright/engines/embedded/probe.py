"""Whether a row's bits depend on its neighbors on this machine, on this model's shapes.

One context is run alone: a prompt, some forced tokens, a tool's answer, some more tokens. Then again at other places,
beside neighbors of several lengths, in wider batches, and with its prompt cut in other pieces. All logits have to be
equal bit for bit, or the deterministic mode cannot be promised here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.embedded.dense import MAX_PRODUCT_ROWS
from rollwright.engines.embedded.runner import Logits, PrefillRow, Runner

__all__ = ["Crowd", "probe"]

_DELTA = 5
"""So few that alone they are the least rows that a product has."""
_STEPS = 2
_WIDTHS = 64
"""Wider steps are like that one: what differs are kernels for few rows."""
_PROMPT_TOKENS = 100
"""Of prompts that are written alone, by two, and as many as one product takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """What stands around the probed context."""

    place: int
    width: int
    """Places of a decode step."""
    neighbor_tokens: int
    """Length of the others' contexts."""
    cuts: tuple[int, ...]
    """Where the prompt is cut."""

    def __str__(self) -> str:
        """For a sentence."""
        around = f"{self.width} places with contexts of {self.neighbor_tokens} tokens"
        return f"at place {self.place} among {around}, its prompt cut at {self.cuts or 'no place'}"


def probe(runner: Runner) -> str | None:
    """Run the comparison; the runner must hold nothing, and holds nothing that counts afterwards.

    Returns:
        What differed, or None: then a context gives the same bits in any company.
    """
    found = None
    for prompt_tokens in _prompt_lengths(runner.max_context_tokens):
        ids = np.random.default_rng(prompt_tokens).integers(0, runner.vocab, prompt_tokens + _DELTA + 2 * _STEPS)
        tokens = ids.astype(np.int32)
        alone = _run(runner, tokens, prompt_tokens, Crowd(place=0, width=1, neighbor_tokens=1, cuts=()))
        for crowd in _crowds(runner, prompt_tokens):
            together = _run(runner, tokens, prompt_tokens, crowd)
            for what, first, second in zip(_STAGES, alone, together, strict=True):
                if found is None and not np.array_equal(first, second):
                    found = f"a context of {prompt_tokens} tokens gives other bits {what} {crowd} than alone"
    if found is None:
        found = _odd_number_of_rows(runner)
    for place in range(runner.num_places):
        runner.scrub(place)
    return found


_STAGES = (
    "behind its prompt",
    *(f"in decode step {i + 1}" for i in range(_STEPS)),
    "behind a tool's answer",
    *(f"in decode step {_STEPS + i + 1}" for i in range(_STEPS)),
)


def _prompt_lengths(most: int) -> list[int]:
    """On both sides of the first block that the value product is summed in."""
    room = most - _DELTA - 2 * _STEPS
    return sorted({min(length, room) for length in (45, 290)})


def _crowds(runner: Runner, prompt_tokens: int) -> list[Crowd]:
    """Few, since each costs a dozen forward passes at start; lengths, widths, places and cuts change between them."""
    places, most = runner.num_places, runner.max_context_tokens - 2 * _STEPS
    return [
        Crowd(
            place=min(5, places - 1), width=min(8, places), neighbor_tokens=min(30, most), cuts=(prompt_tokens // 3,)
        ),
        Crowd(place=min(13, places - 1), width=min(24, places), neighbor_tokens=min(300, most), cuts=()),
        Crowd(place=places - 1, width=places, neighbor_tokens=most, cuts=(1, prompt_tokens // 2)),
    ]


def _run(runner: Runner, tokens: NDArray[np.int32], prompt_tokens: int, crowd: Crowd) -> list[Logits]:
    """Logits behind the prompt, in each decode step, behind the delta, and in each decode step again."""
    bounds = [0, *crowd.cuts, prompt_tokens]
    found = [_prefill(runner, tokens, bounds, crowd)]
    position = prompt_tokens
    found += _decode(runner, tokens, position, crowd)
    position += _STEPS
    found.append(_prefill(runner, tokens, [position, position + _DELTA], crowd))
    found += _decode(runner, tokens, position + _DELTA, crowd)
    return found


def _odd_number_of_rows(runner: Runner) -> str | None:
    """Steps of every width and prefills of few and of many rows, alike in all rows: kernels go by their number."""
    token = runner.vocab // 2

    def drawn(width: int) -> Logits:
        given, positions = np.full(width, token, dtype=np.int64), np.zeros(width, dtype=np.int64)
        return runner.decode(np.arange(width), given, positions)

    def written(width: int) -> Logits:
        return runner.prefill([PrefillRow(place=place, start=0, token_ids=prompt) for place in range(width)])

    alone = drawn(1)
    for width in range(2, min(runner.num_places, _WIDTHS) + 1):
        if not (drawn(width) == alone).all():
            return f"a token gives other bits in a decode step of {width} rows than alone"
    length = min(_PROMPT_TOKENS, runner.max_context_tokens)
    prompt = np.random.default_rng(length).integers(0, runner.vocab, length).astype(np.int32)
    alone = written(1)
    for width in sorted({min(count, runner.num_places) for count in (2, MAX_PRODUCT_ROWS // length)}):
        if not (written(width) == alone).all():
            return f"a prompt of {length} tokens gives other bits in a prefill of {width} than alone"
    return None


def _prefill(runner: Runner, tokens: NDArray[np.int32], bounds: Sequence[int], crowd: Crowd) -> Logits:
    """Write pieces of the context, each beside pieces of its neighbors."""
    logits: Logits | None = None
    for low, high in zip(bounds[:-1], bounds[1:], strict=True):
        rows = [PrefillRow(place=crowd.place, start=low, token_ids=tokens[low:high])]
        others = [place for place in range(min(crowd.width, 4)) if place != crowd.place]
        for number, place in enumerate(others):
            length = min(1 + 7 * number + (high - low) // 2, runner.max_context_tokens)
            start = min(crowd.neighbor_tokens, runner.max_context_tokens - length)
            rows.insert(number % 2, PrefillRow(place=place, start=start, token_ids=tokens[:length]))
        mine = next(i for i, row in enumerate(rows) if row.place == crowd.place)
        logits = runner.prefill(rows)[mine]
    assert logits is not None
    return logits


def _decode(runner: Runner, tokens: NDArray[np.int32], position: int, crowd: Crowd) -> list[Logits]:
    """Force tokens, beside neighbors that write at the ends of their contexts."""
    found: list[Logits] = []
    for step in range(_STEPS):
        places = np.arange(crowd.width)
        places = places[(places % 5 != 1) | (places == crowd.place)]
        given = np.full(len(places), tokens[step], dtype=np.int64)
        positions = np.full(len(places), crowd.neighbor_tokens + step - 1, dtype=np.int64)
        mine = int(np.flatnonzero(places == crowd.place)[0])
        given[mine], positions[mine] = tokens[position + step], position + step
        found.append(runner.decode(places, given, positions)[mine])
    return found
