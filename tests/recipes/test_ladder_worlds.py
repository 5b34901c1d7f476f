"""The worlds of the ladder: splits by cluster, verifiers that do not look at one another, and results that lie."""

import asyncio
from dataclasses import replace

import pytest

from rollwright.environments import DemonstratedTurn, EnvironmentSetupError, ToolError
from rollwright.recipes.ladder.worlds import letters, mixed, one_tool
from rollwright.recipes.worlds import World
from rollwright.record import Passage, Submission, Task, Verifier
from rollwright.tasks import SplitSizes, Stratum, payload_of

SIZES = SplitSizes(train=120, held_out=60)


def strata(world: World) -> tuple[Stratum, ...]:
    return world.tasks(SIZES, 0)


def clusters(tasks: tuple[Task, ...]) -> set[str]:
    return {payload_of(task).text("cluster") for task in tasks}


def said(task: Task, *texts: str) -> Submission:
    passages = tuple(Passage(actor="agent", kind="policy", text=text) for text in texts)
    return Submission(
        trajectory_id="e000000-00-0", task=task, terminal_reason="model_end", passages=passages, artifacts={}
    )


def value(verifier: Verifier, submission: Submission) -> float | str:
    (verdict,) = asyncio.run(verifier.verify([submission]))
    return verdict.outcome


def paid(world: World, submission: Submission) -> float | str:
    return value(world.parts[0].verifier, submission)


@pytest.mark.parametrize("world", [letters.load(), one_tool.load(), mixed.load()], ids=["letters", "one_tool", "mixed"])
def test_no_cluster_of_a_held_out_task_is_trained_on(world: World):
    trained = set[str]().union(*(clusters(one.train) for one in strata(world)))
    held_out = set[str]().union(*(clusters(one.held_out) for one in strata(world)))
    assert trained and held_out
    assert not trained & held_out


def test_a_task_never_changes_sides_between_seeds_and_sizes():
    few, many = (one_tool.one_tool_strata(SplitSizes(train=n, held_out=n), seed) for n, seed in ((40, 0), (400, 1)))
    for one, other in zip(few, many, strict=True):
        assert not clusters(one.train) & clusters(other.held_out)


@pytest.mark.parametrize("job", sorted(letters.JOBS))
def test_both_verifiers_of_letters_know_the_right_answer_a_near_miss_and_an_attack(job: str):
    world, second = letters.load(jobs=job), letters.second_verifier()
    for task in strata(world)[0].train[:20]:
        right = payload_of(task).answer.split()
        near = [right[1], right[0], *right[2:]]
        for answer, due in ((right, 1.0), (near, 0.0), ([*right, *right], 0.0), (right[:-1], 0.0), ([], 0.0)):
            submission = said(task, f"answer: {' '.join(answer)}")
            assert paid(world, submission) == value(second, submission) == due


def test_the_second_verifier_of_letters_reads_no_gold():
    task = strata(letters.load())[0].train[0]
    blank = replace(task, payload=task.payload.replace(payload_of(task).answer, "z z z z z"))
    assert value(letters.second_verifier(), said(blank, f"answer: {payload_of(task).answer}")) == 1.0


def test_demonstrations_of_letters_are_right_as_often_as_asked():
    world = letters.load(right_share=0.4, ramble_share=0.15)
    asked = [(task, seed) for task in strata(world)[0].train for seed in range(6)]
    texts = [
        (task, letters.show_letters(task, seed, right_share=0.4, ramble_share=0.15)[0].text) for task, seed in asked
    ]
    plain = [(task, text) for task, text in texts if not text.startswith("hm")]
    assert 1 - len(plain) / len(texts) == pytest.approx(0.15, abs=0.04)
    rights = [float(text == f"answer: {payload_of(task).answer}") for task, text in plain]
    assert sum(rights) / len(rights) == pytest.approx(0.4, abs=0.05)


def test_no_verifier_takes_what_is_rambled_for_an_answer():
    world, task = letters.load(), strata(letters.load())[0].train[0]
    rambled = said(task, f"hm hm answer: {payload_of(task).answer}")
    assert paid(world, rambled) == value(letters.second_verifier(), rambled) == 0.0


def test_a_job_that_there_is_not_is_refused():
    with pytest.raises(EnvironmentSetupError, match="there is no job 'shuffle'"):
        strata(letters.load(jobs="shuffle"))


def test_every_slice_of_one_tool_meets_the_calculator_that_it_is_named_for():
    for stratum in strata(one_tool.load()):
        slice_name = stratum.name.removeprefix("one_tool_")
        for task in stratum.train:
            payload = payload_of(task)
            expression = payload.text("expression")
            assert payload.text("slice") == slice_name
            if slice_name == "error":
                assert payload.answer == "undefined"
                with pytest.raises(ToolError, match="division by zero"):
                    one_tool.calculator(expression)
                continue
            result = one_tool.calculator(expression)
            assert result.startswith(payload.answer)
            assert (result != payload.answer) == (slice_name == "adversarial")


def test_who_believes_the_claim_is_not_paid():
    world = one_tool.load()
    (adversarial,) = [one for one in strata(world) if one.name == "one_tool_adversarial"]
    for task in adversarial.train[:20]:
        *_, last = world.attacks["believes the claim"](task, 0)
        assert paid(world, said(task, last.text)) == 0.0
        assert paid(world, said(task, f"answer: {payload_of(task).answer}")) == 1.0


def test_a_call_costs_a_success_what_was_asked_and_a_failure_nothing():
    world = one_tool.load(call_cost=0.1)
    task = strata(world)[0].train[0]
    right = said(task, f"answer: {payload_of(task).answer}")
    call = Passage(actor="agent", kind="tool", text="1")
    assert paid(world, right) == 1.0
    assert paid(world, replace(right, passages=(call, *right.passages))) == pytest.approx(0.9)
    assert paid(world, replace(said(task, "answer: no"), passages=(call, call))) == 0.0


def test_the_reference_asks_only_where_the_tool_is_needed():
    world = one_tool.load()
    for stratum in strata(world):
        turns: list[tuple[DemonstratedTurn, ...]] = [world.reference(task, 0) for task in stratum.train[:5]]
        assert {len(one) for one in turns} == ({1} if stratum.name == "one_tool_unneeded" else {2})


def test_a_run_on_one_source_is_measured_on_the_tasks_of_all_three():
    whole, part = (strata(mixed.load(sources=names)) for names in (",".join(mixed.SOURCES), "letters_reverse"))
    assert [one.name for one in part] == ["letters_reverse"]
    assert {task.source for task in part[0].train} == {"letters_reverse"}
    assert [task.task_id for task in part[0].held_out] == [task.task_id for one in whole for task in one.held_out]
    assert {task.source for task in part[0].held_out} == set(mixed.SOURCES)


def test_the_second_verifier_of_the_mixture_knows_each_source():
    second = mixed.second_verifier()
    for stratum in strata(mixed.load()):
        task = stratum.train[0]
        assert value(second, said(task, f"answer: {payload_of(task).answer}")) == 1.0
        assert value(second, said(task, "answer: 7 a")) == 0.0
