"""Reward functions of other systems, bound by their parameters' names, and refused where they cannot be."""

import asyncio
import math

import pytest

from rollwright.verifiers import Composition, Part, VerifierSetupError, reward_function_verifier
from tests.verifiers.submissions import ask, submitted, verdict_of

RIGHT, WRONG = submitted("it is 42", trajectory_id="a"), submitted("it is 41", trajectory_id="b")


def trl_batch(prompts, completions, answer, **kwargs):
    assert isinstance(prompts[0], str)
    return [float(gold in said) for said, gold in zip(completions, answer, strict=True)]


async def trl_async(completions, ground_truth, hint=None):
    await asyncio.sleep(0)
    return [float(gold in said) for said, gold in zip(completions, ground_truth, strict=True)]


def verl_score(data_source, solution_str, ground_truth, extra_info=None):
    assert data_source == "s"
    assert extra_info is not None
    assert extra_info["split"] == "train"
    return {"score": float(ground_truth in solution_str), "length": len(solution_str), "note": "short"}


def verl_lean(solution_str, ground_truth, sandbox=None):
    return ground_truth in solution_str


def by_name(completion, answer):
    assert completion[-1]["role"] == "assistant"
    return float(answer in completion[-1]["content"])


async def by_name_async(prompt, completion, answer, state, task, info):
    assert state["answer"] == answer
    assert prompt[-1] == {"role": "user", "content": "q?"}
    return 1 if answer in completion[-1]["content"] else 0


@pytest.mark.parametrize("function", [trl_batch, trl_async, verl_score, verl_lean, by_name, by_name_async])
def test_every_known_form_is_bound_without_an_adapter(function) -> None:
    verifier = reward_function_verifier(function)
    assert verifier.name == function.__name__
    assert [v.outcome for v in ask(verifier, RIGHT, WRONG)] == [1.0, 0.0]
    assert verifier.revision == reward_function_verifier(function).revision


def test_other_keys_of_a_map_are_components() -> None:
    verdict = verdict_of(reward_function_verifier(verl_score), RIGHT)
    assert [(c.name, c.value) for c in verdict.components] == [("length", 8.0)]
    assert verdict.evidence == "note: short"


def test_columns_of_the_task_reach_a_batch_function() -> None:
    def by_level(completions, level, answer):
        return [place * 1.0 for place in level]

    verifier = reward_function_verifier(by_level)
    assert verdict_of(verifier, submitted("x", info={"level": 3})).outcome == 3.0
    with pytest.raises(VerifierSetupError, match=r"needs \['level'\], which no task gives"):
        verdict_of(verifier, submitted("x"))


def test_a_group_is_one_batch_where_asked() -> None:
    def longest(completions):
        most = max(map(len, completions))
        return [float(len(said) == most) for said in completions]

    verifier = reward_function_verifier(longest, scope="group")
    composition = Composition([Part(verifier=verifier)])
    long, short = submitted("a long one", trajectory_id="a"), submitted("short", trajectory_id="b")
    assert [score.outcome for score in asyncio.run(composition.score([long, short]))] == [1.0, 0.0]
    with pytest.raises(VerifierSetupError, match="scope trajectory"):
        reward_function_verifier(by_name, scope="group")


def test_none_and_failures_are_no_numbers() -> None:
    def undecided(completions):
        return [None for _ in completions]

    assert verdict_of(reward_function_verifier(undecided), RIGHT).outcome == "grader_error"
    for answer in (math.nan, math.inf, "1.0", [1.0], {"reward": 1.0}, {"score": "1"}, object()):

        def odd(completion, *, given=answer):
            return given

        (score,) = asyncio.run(Composition([Part(verifier=reward_function_verifier(odd))]).score([RIGHT]))
        assert score.outcome == "grader_error"


def test_a_batch_of_another_length_is_no_score() -> None:
    def short(completions):
        return []

    (score,) = asyncio.run(Composition([Part(verifier=reward_function_verifier(short))]).score([RIGHT]))
    assert score.outcome == "grader_error"


def takes_tokens(completions, completion_ids):
    return [0.0]


def takes_environments(completions, environments):
    return [0.0]


def takes_both(completions, solution_str):
    return [0.0]


def openrlhf(queries, prompts, labels):
    return {}


def slime(args, sample):
    return 0.0


def with_parser(completion, parser):
    return 0.0


def of_nothing():
    return 0.0


def positional(completions, /):
    return [0.0]


def strange(answer, weather):
    return 0.0


@pytest.mark.parametrize(
    "function",
    [
        takes_tokens,
        takes_environments,
        takes_both,
        openrlhf,
        slime,
        with_parser,
        of_nothing,
        positional,
        strange,
        "a name",
    ],
)
def test_what_cannot_be_bound_is_refused(function) -> None:
    with pytest.raises(VerifierSetupError):
        reward_function_verifier(function)


def test_the_text_form_is_chosen_where_a_function_needs_it() -> None:
    def plain(completion, answer):
        return float(completion.endswith(answer))

    assert verdict_of(reward_function_verifier(plain, text="text"), RIGHT).outcome == 1.0


def test_bad_gold_is_no_score_and_spoils_no_other() -> None:
    verifier = reward_function_verifier(trl_batch)
    found = ask(verifier, submitted("x", "", trajectory_id="c"), RIGHT)
    assert [v.outcome for v in found] == ["grader_error", 1.0]
