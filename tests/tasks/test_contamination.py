"""What of one set of tasks stands in another: by text, words, characters or meaning; and what is only wording."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwright.statistics import wilson_interval
from rollwright.tasks import TaskError
from rollwright.tasks.contamination import AskedText, OverlapRules, find_overlap, nearest_neighbors

WORDS = [f"{a}{b}" for a in ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki") for b in "lmnrstv"]


def texts(*given_texts, name="t"):
    return [AskedText(id=f"{name}{n}", text=text) for n, text in enumerate(given_texts)]


def sentence(chance, words):
    return " ".join(chance.choice(WORDS) + str(chance.randrange(1000)) for _ in range(words))


def counts(overlap):
    return {one.kind: (one.num, one.num_comparable) for one in overlap.counts}


def test_equal_texts_are_exact_and_the_same_words_otherwise_written_are_normalized():
    first = texts("How many apples are left?", "Name the river.")
    second = texts("How many apples are left?", "HOW MANY  apples are left", "Name the lake.")
    found = find_overlap(first, second)
    assert counts(found)["exact"] == (1, 3) and counts(found)["normalized"] == (2, 3)
    assert (found.num_leaked, found.rate) == (2, pytest.approx(2 / 3))
    kinds = [(pair.kind, pair.first.id, pair.second.id) for pair in found.pairs]
    assert kinds == [("exact", "t0", "t0"), ("normalized", "t0", "t1")]


@pytest.mark.parametrize("other", ["What is 2-8?", "What is 2*8?", "What is 28?", "What is 2 + 9?"])
def test_another_calculation_is_another_task(other):
    assert find_overlap(texts("What is 2+8?"), texts(other)).num_leaked == 0


def test_wide_and_composed_characters_are_the_same_words():
    assert counts(find_overlap(texts("Ｃafé ①"), texts("cafe\u0301 1")))["normalized"] == (1, 1)


def test_thirteen_words_in_common_are_a_leak_and_twelve_are_not():
    chance = random.Random(1)
    shared = sentence(chance, 13).split()
    for length, leaks in ((13, 1), (12, 0)):
        inside = f"{sentence(chance, 9)} {' '.join(shared[:length])} {sentence(chance, 9)}"
        around = f"{sentence(chance, 5)} {' '.join(shared[:length])} {sentence(chance, 20)}"
        found = find_overlap(texts(sentence(chance, 30), around), texts(inside))
        assert counts(found)["words"] == (leaks, 1)
        if leaks:
            (pair,) = found.pairs
            # One of the 31 − 12 runs of the text.
            assert (pair.first.id, pair.share) == ("t1", pytest.approx(1 / 19))


def test_a_run_never_reaches_from_one_task_into_the_next():
    chance = random.Random(2)
    words = sentence(chance, 26).split()
    first = texts(" ".join(words[:13]), " ".join(words[13:]))
    assert find_overlap(first, texts(" ".join(words[6:20]))).num_leaked == 0


def test_instructions_that_a_tenth_of_a_set_has_are_wording_and_no_leak():
    chance = random.Random(3)
    told = "think step by step and give the final answer on the last line behind the word answer please"
    first = texts(*(f"{sentence(chance, 20)} {told}" for _ in range(200)))
    second = texts(*(f"{sentence(chance, 20)} {told}" for _ in range(100)))
    assert find_overlap(first, second).num_leaked == 0
    leaked = [*second[:-1], AskedText(id="leak", text=first[7].text + " indeed")]
    found = find_overlap(first, leaked)
    assert counts(found)["words"] == (1, 100)
    assert (found.pairs[0].first.id, found.pairs[0].second.id) == ("t7", "leak")


def test_a_short_task_that_is_nearly_another_is_found_by_its_characters():
    chance = random.Random(4)
    first = texts(*(sentence(chance, 8) for _ in range(300)))
    second = texts(*(sentence(chance, 8) for _ in range(50)), first[123].text + "s", name="s")
    found = find_overlap(first, second)
    assert counts(found)["characters"] == (1, 51) and counts(found)["words"] == (0, 0)
    (pair,) = found.pairs
    assert (pair.kind, pair.first.id, pair.second.id) == ("characters", "t123", "s50")
    assert 0.9 < pair.share < 1.0 and found.num_leaked == 0


def test_short_tasks_that_differ_in_a_common_word_are_no_copies():
    things, places = ("book", "soap", "cup", "mug"), ("drawer", "fridge", "box", "sink")
    every = [f"house {n}\nput {a} in {b}" for n in range(40) for a in things for b in places]
    found = find_overlap(texts(*every[::2]), texts(*every[1::2]))
    assert counts(found)["characters"][0] == 0


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(0, 39), max_size=12), st.integers(0, 10**6))
def test_exactly_the_tasks_that_were_copied_in_are_found(copied, seed):
    chance = random.Random(seed)
    first = texts(*(sentence(chance, 20) for _ in range(40)))
    second = [
        AskedText(id=str(n), text=first[n].text.upper() if n in copied else sentence(chance, 20)) for n in range(40)
    ]
    chance.shuffle(second)
    found = find_overlap(first, second, worst=40)
    assert found.num_leaked == len(copied)
    assert {pair.second.id for pair in found.pairs} == {str(n) for n in copied}
    assert all(pair.first.id == f"t{pair.second.id}" for pair in found.pairs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_runs_of_words_are_those_of_a_search_by_brute_force(seed):
    chance = random.Random(seed)
    few = WORDS[:4]
    sides = [[" ".join(chance.choice(few) for _ in range(chance.randint(3, 9))) for _ in range(8)] for _ in range(2)]

    def runs(text):
        words = text.split()
        return {tuple(words[n : n + 4]) for n in range(len(words) - 3)}

    known = set().union(*(runs(text) for text in sides[0]))
    equal = set(sides[0])
    due = sum(bool(runs(text) & known) for text in sides[1] if text not in equal)
    found = find_overlap(texts(*sides[0]), texts(*sides[1]), OverlapRules(words=4, wording=1.0))
    assert found.count("words").num == due
    assert found.count("exact").num == sum(text in equal for text in sides[1])


def test_rates_have_wilsons_interval_and_a_kind_that_cannot_be_asked_has_no_rate():
    found = find_overlap(texts("one two"), texts("one two", "three four"))
    exact, words = found.count("exact"), found.count("words")
    assert (exact.rate, exact.interval) == (0.5, wilson_interval(1, 2))
    assert (words.rate, words.num_comparable) == (None, 0)


def test_empty_sets_hold_nothing_in_common():
    assert find_overlap([], texts("a b")).num_leaked == 0
    assert find_overlap(texts("a b"), []).rate == 0.0


def test_the_revision_names_the_method_and_its_numbers():
    assert OverlapRules().revision == OverlapRules(words=13).revision
    assert len({OverlapRules(words=n, characters=c).revision for n in (8, 13) for c in (5, 8)}) == 4
    with pytest.raises(TaskError, match="at least 2 long"):
        OverlapRules(words=1)


def test_the_nearest_by_meaning_is_the_one_with_the_largest_cosine():
    chance = np.random.default_rng(0)
    first, second = (chance.normal(size=(n, 8)).astype(np.float32) for n in (30, 1500))
    found = nearest_neighbors(first, second, worst=1500)
    cosines = (second / np.linalg.norm(second, axis=1, keepdims=True)) @ (
        first / np.linalg.norm(first, axis=1, keepdims=True)
    ).T
    assert {one.second: one.first for one in found} == dict(enumerate(cosines.argmax(axis=1)))
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)


@pytest.mark.slow
def test_a_hundred_thousand_tasks_are_compared_in_time_that_grows_with_their_number():
    chance = random.Random(5)
    words = [sentence(chance, 1) for _ in range(20_000)]
    first = texts(*(" ".join(chance.choices(words, k=40)) for _ in range(100_000)))
    second = [*texts(*(" ".join(chance.choices(words, k=40)) for _ in range(900)), name="s"), *first[:100]]
    found = find_overlap(first, second)
    assert found.num_leaked == 100 and found.count("exact").num == 100
