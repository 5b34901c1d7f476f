"""Frozen entries of published benchmarks score samples of our own content in their formats."""

from dataclasses import dataclass, fields, replace

import pytest

from rollwright.evaluation import PUBLISHED_PROTOCOLS, score_protocol
from rollwright.recipes.build.named_verifiers import VERIFIER_NAMES, named_verifier
from rollwright.record import Verdict
from rollwright.statistics import pass_at_k
from tests.verifiers.submissions import ask, submitted


@dataclass(frozen=True)
class Sample:
    """A task in a benchmark's format, of our own content, with right and wrong completions."""

    question: str
    gold: str
    right: str
    wrong: str


INTEGER = Sample("How many ways are there to …?", "204", "… so \\boxed{204}", "… so \\boxed{240}")
SECOND = Sample("Find the remainder …", "25", "Thus \\boxed{025}.", "Thus \\boxed{26}.")
FORMULA = Sample("Determine all …", "\\frac{n(n+1)}{2}", "\\boxed{\\frac{n^2+n}{2}}", "\\boxed{\\frac{n^2-n}{2}}")
RATIO = Sample("What is the ratio?", "\\frac{3}{4}", "It is \\boxed{0.75}", "It is \\boxed{0.7}")
WORDS = Sample("Ann has 3 boxes of 4 …", "12", "3*4=12, so \\boxed{12}", "3+4=7, so \\boxed{7}")
CHOICE = Sample(
    "Which particle …?\nA) an electron\nB) a muon\nC) a pion\nD) none",
    "C",
    "It decays, so\nanswer: C",
    "It does not, so\nanswer: A or C",
)
TASKS = {
    "aime-2024": (INTEGER, SECOND),
    "aime-2025": (INTEGER, SECOND),
    "beyond-aime": (INTEGER, SECOND),
    "imo-answer-bench": (FORMULA, INTEGER),
    "math-500": (RATIO, FORMULA),
    "olympiad-bench": (FORMULA, RATIO),
    "gsm8k": (WORDS, WORDS),
    "mmlu-stem": (CHOICE, CHOICE),
    "gpqa-diamond": (CHOICE, CHOICE),
}


@pytest.fixture(scope="module")
def verifiers():
    made = {name: named_verifier(name) for name in ("math", "choice")}
    yield {name: each.verifier for name, each in made.items()}
    for each in made.values():
        each.close()


@pytest.mark.row("S435")
@pytest.mark.row("S436")
@pytest.mark.row("S437")
@pytest.mark.row("S438")
@pytest.mark.row("S439")
@pytest.mark.parametrize("name", TASKS)
def test_an_entry_scores_a_format_fixture_with_its_average_apart_from_pass_at_k(verifiers, name: str) -> None:
    entry = PUBLISHED_PROTOCOLS[name]
    assert entry.verifier in VERIFIER_NAMES
    verdicts: dict[str, list[Verdict]] = {}
    num_right = {"task 0": (entry.samples + 1) // 2, "task 1": 0}
    for (task, right), sample in zip(num_right.items(), TASKS[name], strict=True):
        texts = [sample.right] * right + [sample.wrong] * (entry.samples - right)
        submissions = [submitted(text, sample.gold, question=sample.question) for text in texts]
        verdicts[task] = ask(verifiers[entry.verifier], *submissions)
    score = score_protocol(entry, verdicts)
    share = num_right["task 0"] / entry.samples
    assert score.average == pytest.approx(share / 2)
    for k in entry.pass_k:
        of_the_first = pass_at_k(entry.samples, num_right["task 0"], k)
        assert of_the_first is not None
        assert score.pass_at[k] == pytest.approx(of_the_first / 2)
    assert set(score.pass_at) == set(entry.pass_k)
    assert score.interval is not None
    assert score.average is not None
    assert score.interval.low <= score.average <= score.interval.high
    assert (score.num_tasks, score.num_unscored) == (2, 0)
    assert score.frozen == entry.frozen(verifier_revision=verifiers[entry.verifier].revision)


@pytest.mark.row("S435")
def test_an_entry_states_temperature_top_p_cap_and_samples_and_all_are_in_its_digest() -> None:
    entry = PUBLISHED_PROTOCOLS["aime-2024"]
    assert (entry.temperature, entry.top_p, entry.max_tokens, entry.samples) == (0.6, 0.95, 32_768, 32)
    assert entry.pass_k == (1, 8, 32)
    others = {
        "name": "x", "benchmark": "x", "temperature": 0.7, "top_p": 0.9, "max_tokens": 1, "samples": 64, "pass_k": (1,),
        "verifier": "numeric", "answer_form": "marker",
    }  # fmt: skip
    assert set(others) == {field.name for field in fields(entry)} - {"dated"}
    digests = {replace(entry, **{name: value}).frozen(verifier_revision="1") for name, value in others.items()}
    digests |= {entry.frozen(verifier_revision=revision) for revision in ("1", "2")}
    assert len(digests) == len(others) + 2


def verdict(outcome, verifier: str = "unit_tests", revision: str = "1") -> Verdict:
    return Verdict(trajectory_id="t", verifier=verifier, revision=revision, scope="trajectory", outcome=outcome)


@pytest.mark.row("S440")
def test_livecodebench_is_avg_at_4_of_unit_tests_within_a_window_that_is_recorded() -> None:
    entry = PUBLISHED_PROTOCOLS["livecodebench"]
    assert (entry.samples, entry.verifier) == (4, "unit_tests")
    verdicts = {"a": [verdict(v) for v in (1.0, 1.0, 0.0, 0.0)], "b": [verdict(v) for v in (1.0, 0.0, 0.0, 0.0)]}
    score = score_protocol(entry, verdicts, window="2024-08-01..2025-01-31")
    assert score.average == pytest.approx(0.375)
    assert score.pass_at[4] == 1.0
    assert score.frozen != score_protocol(entry, verdicts, window="2024-08-01..2025-02-28").frozen
    with pytest.raises(ValueError, match="name the window"):
        score_protocol(entry, verdicts)


def test_what_was_not_scored_is_counted_and_in_no_mean() -> None:
    entry = replace(PUBLISHED_PROTOCOLS["math-500"], verifier="unit_tests")
    verdicts = {
        "a": [verdict(1.0), verdict(1.0), verdict("infrastructure"), verdict(0.0)],
        "b": [verdict("timeout")] * 4,
    }
    score = score_protocol(entry, verdicts)
    assert score.average == pytest.approx(2 / 3)
    assert (score.num_tasks, score.num_unscored) == (1, 5)
    assert score.pass_at[4] is None


def test_other_samples_verifiers_or_revisions_are_refused() -> None:
    entry = PUBLISHED_PROTOCOLS["math-500"]
    right = verdict(1.0, "math")
    for verdicts, said in (
        ({}, "takes 4 samples"),
        ({"a": [right]}, "takes 4 samples"),
        ({"a": [verdict(1.0)] * 4}, "judged by one revision of math"),
        ({"a": [right, right, right, verdict(1.0, "math", "2")]}, "judged by one revision"),
    ):
        with pytest.raises(ValueError, match=said):
            score_protocol(entry, verdicts)
    with pytest.raises(ValueError, match="every k"):
        replace(entry, pass_k=(8,))
    with pytest.raises(ValueError, match="greedy samples are one"):
        replace(entry, temperature=0.0)
