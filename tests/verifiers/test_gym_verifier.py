"""reasoning-gym under our driver: every generator by its name, its own scorers, and nothing of an answer ever run."""

import asyncio
import datetime
import zlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rollwright.environments import EnvironmentSetupError
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds import World, load_world
from rollwright.record import Task, Verdict
from rollwright.tasks import SplitSizes, payload_of
from rollwright.verifiers import GymVerifier
from rollwright.verifiers.gym_scorers import EVALUATED, evaluates_to_no_harm
from tests.verifiers.submissions import submitted

REFUSED = {"coin_flip", "composite", "game_of_life_halting"}
NO_GOLD = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Several answers are right and the package keeps none of them: nothing can be shown."""
JUNK = ("", "xyzzy", "[]", "{}", "-", "null", " ".join(map(str, range(99))))
PROGRAMS = (
    "__import__('os').getpid()",
    "[x for x in ().__class__.__base__.__subclasses__()]",
    "open('/etc/passwd').read()",
    "print(1)",
    "f'{1}'",
    "x.real",
    "(lambda: 1)()",
    "S('1')",
    "9**9**9 if 1 else 2",
    "exec('1')",
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = load_world("reasoning_gym", {"generators": "countdown, graph_color, spiral_matrix", "score_cpu_s": 0.4})
    yield made
    made.close()


def names(world: World) -> list[str]:
    verifier = world.parts[0].verifier
    assert isinstance(verifier, GymVerifier)
    listed = verifier.pool.submit({"names": True}).result().value
    assert isinstance(listed, list)
    return sorted({str(name) for name in listed} - REFUSED)


def judged(world: World, task: Task, text: str) -> Verdict:
    verifier = world.parts[0].verifier
    (verdict,) = asyncio.run(verifier.verify([replace(submitted(text), task=task)]))
    return verdict


def faults(generators: list[str]) -> list[str]:
    """Sentences on what is wrong with them."""
    world = load_world("reasoning_gym", {"generators": ",".join(generators)})
    wrong: list[str] = []
    try:
        for stratum in world.tasks(SplitSizes(train=2 * len(generators), held_out=0), 5):
            for task in stratum.train:
                for junk in JUNK:
                    verdict = judged(world, task, f"<answer>{junk}</answer>")
                    if isinstance(verdict.outcome, str) or verdict.outcome >= 0.7:
                        wrong.append(f"{stratum.name}: {junk!r} earns {verdict.outcome}: {verdict.evidence}")
                if stratum.name in NO_GOLD:
                    continue
                verdict = judged(world, task, world.reference(task, 0)[0].text)
                if verdict.outcome != 1.0:
                    wrong.append(f"{stratum.name}: its own answer earns {verdict.outcome}: {verdict.evidence}")
    finally:
        world.close()
    return wrong


def test_the_generators_of_the_day_pay_their_own_answer_in_full_and_junk_nothing(world):
    today = datetime.date.today().toordinal()
    by_day = sorted(names(world), key=lambda name: zlib.crc32(f"{today} {name}".encode()))
    assert faults(by_day[:3]) == []


@pytest.mark.slow
def test_all_generators_pay_their_own_answer_in_full_and_junk_nothing(world):
    assert len(names(world)) == 103
    assert faults(names(world)) == []


@pytest.fixture(scope="module")
def tasks(world) -> dict[str, Task]:
    return {stratum.name: stratum.train[0] for stratum in world.tasks(SplitSizes(train=3, held_out=0), 0)}


def test_equal_seeds_draw_equal_tasks_and_other_seeds_others(world, tasks):
    again = world.tasks(SplitSizes(train=3, held_out=0), 0)
    assert {s.name: s.train[0] for s in again} == tasks
    assert not {s.train[0].task_id for s in world.tasks(SplitSizes(train=3, held_out=0), 1)} & {
        task.task_id for task in tasks.values()
    }


def test_a_program_is_never_handed_to_a_scorer_that_evaluates_its_answer(world, tasks):
    verdict = judged(world, tasks["countdown"], f"<answer>{PROGRAMS[0]}</answer>")
    assert (verdict.outcome, verdict.finding) == (0.0, "unparsable_answer")
    for generator in EVALUATED:
        for program in PROGRAMS:
            assert not evaluates_to_no_harm(generator, program), (generator, program)
    assert evaluates_to_no_harm("leg_counting", PROGRAMS[0])


def test_the_forms_that_those_scorers_take_are_handed_on():
    assert evaluates_to_no_harm("countdown", "(3 + 4)*2 - 1/5")
    assert evaluates_to_no_harm("simple_integration", "x**3/3 - sin(x)*exp(2*x) + C")
    assert evaluates_to_no_harm("spiral_matrix", "1 2 3\n4 5 6")
    assert evaluates_to_no_harm("spiral_matrix", "[1, -2, [3]]")
    assert evaluates_to_no_harm("string_insertion", "['A', 'B']")
    assert evaluates_to_no_harm("n_queens", "_ Q _ _\n_ _ _ Q")


def test_partial_credit_is_raw(world, tasks):
    gold = payload_of(tasks["spiral_matrix"]).answer
    listed = str(gold.split()).replace("'", "")
    assert judged(world, tasks["spiral_matrix"], f"<answer>{listed}</answer>").outcome == 0.1
    assert judged(world, tasks["spiral_matrix"], f"<answer>{gold}</answer>").outcome == 1.0


def test_the_last_tag_of_the_last_turn_counts(world, tasks):
    gold = payload_of(tasks["spiral_matrix"]).answer
    said = f"<answer>0</answer> no: <answer>\n{gold}\n</answer>"
    assert judged(world, tasks["spiral_matrix"], said).outcome == 1.0
    verdict = judged(world, tasks["spiral_matrix"], gold)
    assert (verdict.outcome, verdict.finding) == (0.0, "no_answer")


def test_a_countdown_that_would_run_for_ever_is_cut_off_and_is_the_policys_doing(world, tasks):
    verdict = judged(world, tasks["countdown"], "<answer>9**9**9**9</answer>")
    assert (verdict.outcome, verdict.finding) == (0.0, "program_timeout")


def test_a_task_of_another_world_is_a_fault_of_the_data(world):
    verdict = judged(world, submitted("x").task, "<answer>1</answer>")
    assert verdict.outcome == "grader_error"
    assert "no task of this world" in verdict.evidence


def test_a_generator_without_an_answer_of_its_own_cannot_be_shown(world, tasks):
    with pytest.raises(EnvironmentSetupError, match="graph_color keeps no answer"):
        world.reference(tasks["graph_color"], 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param({"generators": "leg_countin"}, "Did you mean leg_counting", marks=pytest.mark.slow),
        ({"generators": "game_of_life_halting"}, "its scorer pays every text"),
        ({"generators": "leg_counting, leg_counting"}, "none twice"),
        ({"parameters": "[]"}, "must be a JSON object"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused_by_name(arguments, sentence):
    with pytest.raises(RecipeError, match=sentence):
        load_world("reasoning_gym", arguments)
