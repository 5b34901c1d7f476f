"""Tables of blocks: what a place writes is its own, what siblings share is read by all and written by none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.engines.embedded import EmbeddedSettings, opening
from rollwright.engines.embedded.blocks import BLOCK, EMPTY_BLOCK, BlockTables
from rollwright.engines.embedded.runner import PrefillRow
from tests.engines.small import VOCAB, small_model

MODEL = small_model("qwen3", hidden_size=96, num_attention_heads=4, num_key_value_heads=2)
PLACES, MOST = 5, 400

writes = st.tuples(st.just("write"), st.integers(0, PLACES - 1), st.integers(0, MOST - 1), st.integers(1, 200))
shares = st.tuples(st.just("share"), st.integers(0, PLACES - 1), st.integers(0, PLACES - 1), st.integers(1, MOST))
forgets = st.tuples(st.just("forget"), st.integers(0, PLACES - 1), st.just(0), st.just(0))


class Written:
    """A cache of one number a position, beside what each place should read."""

    def __init__(self) -> None:
        self.tables = BlockTables(PLACES, MOST)
        self.cache = np.full((self.tables.num_blocks, BLOCK), -1)
        self.due: list[list[int]] = [[] for _ in range(PLACES)]
        self.number = 0

    def write(self, place: int, start: int, length: int) -> None:
        start = min(start, len(self.due[place]))
        end = min(start + length, MOST)
        self._change(self.tables.reserve(place, start, end))
        for position in range(start, end):
            self.number += 1
            self.cache[self.tables.blocks[place, position // BLOCK], position % BLOCK] = self.number
            self.due[place][position:] = [self.number]

    def share(self, source: int, target: int, length: int) -> None:
        length = min(length, len(self.due[source]))
        if length and source != target:
            self._change(self.tables.share(source, target, length))
            self.due[target] = self.due[source][:length]

    def forget(self, place: int, *_: int) -> None:
        self.tables.forget(place)
        self.due[place] = []

    def _change(self, change) -> None:
        emptied, copied = change
        self.cache[emptied] = -1
        for source, target in copied:
            self.cache[target] = self.cache[source]


@given(st.lists(writes | shares | forgets, max_size=30))
def test_every_place_reads_what_it_wrote_or_took_over_whatever_the_others_did(actions):
    written = Written()
    for name, *numbers in actions:
        {"write": written.write, "share": written.share, "forget": written.forget}[name](*numbers)
        for place, due in enumerate(written.due):
            held = written.cache[written.tables.blocks[place]].reshape(-1)[: len(due)]
            assert held.tolist() == due
    used = set(written.tables.blocks.reshape(-1).tolist()) - {EMPTY_BLOCK}
    for block in used:
        assert written.tables.num_users(block) == (written.tables.blocks == block).sum()
    for place in range(PLACES):
        written.tables.forget(place)
    for place in range(PLACES):
        written.tables.reserve(place, 0, MOST)  # Every block came back.
    assert (written.tables.blocks != EMPTY_BLOCK).all()


def test_whole_blocks_of_a_common_start_are_held_once():
    tables = BlockTables(3, MOST)
    tables.reserve(0, 0, 150)
    _, copied = tables.share(0, 1, 150)
    assert tables.blocks[1, :2].tolist() == tables.blocks[0, :2].tolist()
    assert copied == [(tables.blocks[0, 2], tables.blocks[1, 2])]
    assert tables.blocks[1, 2] != tables.blocks[0, 2]


@pytest.fixture(scope="module")
def runner():
    return opening.make_runner(MODEL, EmbeddedSettings(num_slots=16, max_context_tokens=MOST))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, MOST - 8), min_size=1, max_size=11))
def test_a_row_has_the_same_bits_beside_rows_of_any_lengths(runner, seed, lengths):
    """Beside rows with as many blocks the sums are laid out in another way than beside rows with fewer or more."""
    rng = np.random.default_rng(seed)
    tokens = [rng.integers(0, VOCAB, length + 1) for length in lengths]
    places = np.sort(rng.permutation(16)[: len(lengths)])
    for place, ids in zip(places.tolist(), tokens, strict=True):
        runner.prefill([PrefillRow(place=place, start=0, token_ids=ids[:-1].astype(np.int32))])
    last, positions = np.array([ids[-1] for ids in tokens]), np.array(lengths)
    together = runner.decode(places, last, positions)
    for i in range(len(lengths)):
        # The same position is written again, with the same numbers.
        alone = runner.decode(places[i : i + 1], last[i : i + 1], positions[i : i + 1])
        assert np.array_equal(alone[0], together[i])
