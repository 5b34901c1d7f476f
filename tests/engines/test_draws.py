"""The draws against Random123's known answers and a plain reference in Python's integers."""

import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rollwright.engines.draws import invert, philox4x32, uniforms

FIXTURE = Path(__file__).parent.parent / "fixtures" / "philox4x32.json"
WORD = 2**32 - 1
words = st.integers(0, WORD)


def plain_philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & WORD,
            (first >> 32) ^ counter[3] ^ key[1],
            first & WORD,
        ]
        key = [(key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD]
    return counter


def plain_uniform(seed, context, position):
    output = plain_philox([position, context, 0, 0], [seed & WORD, seed >> 32])
    return ((output[0] << 32 | output[1]) >> 11) / 2**53


def columns(*rows):
    return np.array(rows, dtype=np.uint64).T


def test_known_answers_of_random123():
    for vector in json.loads(FIXTURE.read_text())["vectors"]:
        counter, key, output = ([int(word, 16) for word in vector[part]] for part in ("counter", "key", "output"))
        assert philox4x32(columns(counter), columns(key))[:, 0].tolist() == output
        assert plain_philox(counter, key) == output


@given(st.lists(st.tuples(st.tuples(words, words, words, words), st.tuples(words, words)), min_size=1, max_size=20))
def test_many_counters_at_once_equal_one_at_a_time(cases):
    counters, keys = zip(*cases, strict=True)
    together = philox4x32(columns(*counters), columns(*keys))
    for index, (counter, key) in enumerate(cases):
        assert together[:, index].tolist() == plain_philox(counter, key)


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), words, words), min_size=1, max_size=20))
def test_uniforms_follow_the_contract(cases):
    seeds, contexts, positions = (np.array(column, dtype=np.uint64) for column in zip(*cases, strict=True))
    found = uniforms(seeds, contexts, positions)
    assert found.tolist() == [plain_uniform(*case) for case in cases]
    assert ((found >= 0) & (found < 1)).all()


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda row: sum(row) > 0.1),
    st.floats(0, 1, exclude_max=True),
)
def test_invert_takes_the_first_token_whose_cumulative_probability_exceeds_the_draw(weights, draw):
    row = np.array(weights) / sum(weights)
    total, expected = 0.0, max(i for i, value in enumerate(row) if value > 0)
    for token, value in enumerate(row):
        total += value
        if total > draw:
            expected = token
            break
    assert invert(row[None], np.array([draw])).tolist() == [expected]


def test_past_the_end_the_last_token_of_positive_probability():
    row = np.array([[0.5, 0.4999999, 0.0]])
    assert invert(row, np.array([1 - 2.0**-53])).tolist() == [1]


def test_a_token_of_probability_zero_is_never_drawn():
    row = np.array([[0.0, 1.0, 0.0]])
    assert invert(row, np.array([0.0])).tolist() == [1]
