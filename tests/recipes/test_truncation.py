"""The five treatments of a cut episode, and what a further attempt in its slot keeps, as a recipe sets them."""

import asyncio
from dataclasses import dataclass, field

import pytest

from rollwright.engines import ScriptedEngine
from rollwright.evaluation import EvaluationAttempt
from rollwright.recipes.build.episodes import Episodes
from rollwright.recipes.build.objective import build_objective
from rollwright.record import StepResult, TerminalReason, Trajectory
from rollwright.rollout import FixedClock
from rollwright.runtime.parts import Attempt
from rollwright.runtime.timebook import TimeBook
from rollwright.verifiers import Composition, FunctionVerifier, Grade, Part
from tests.batches.episodes import POLICY, chat, episode, group
from tests.batches.test_planner import plan, row_advantages
from tests.cases import method_fixture
from tests.end_to_end.small import small_rl
from tests.evaluation.held_out import protocol
from tests.rendering.tokenizers_for_tests import small_renderer
from tests.rollout.fakes import FakeEnvironment, observe
from tests.runtime.fakes import task

WORKED = method_fixture("M105.a")
ADVANTAGES = {
    "negative": WORKED.expect["A_negative"],
    "mask": WORKED.expect["A_mask_in_baseline"],
    "exclude": WORKED.expect["A_excluded"],
    # The ramp takes 0, 1/2 and 1 from rewards of 1, 0, 0: 1, -1/2, -1 with a mean of -1/6.
    "soft_penalty": [7 / 6, -1 / 3, -5 / 6],
    # What is still cut after its last resumption.
    "resume": WORKED.expect["A_negative"],
}
LENGTHS = (2, 4, 6)


@pytest.mark.parametrize("treatment", ADVANTAGES)
def test_the_worked_group_under_each_treatment_that_a_recipe_names(treatment):
    ramp = ("rollout.overlong_max_tokens=6", "rollout.overlong_buffer_tokens=4")
    settings = ("objective=dr_grpo", "objective.fixed_length_tokens=64", f"rollout.truncation={treatment}")
    recipe = small_rl(*settings, *(ramp if treatment == "soft_penalty" else ())).recipe
    ends = [TerminalReason.TOKEN_LIMIT if cut else TerminalReason.MODEL_END for cut in WORKED.input["truncated"]]
    members = [
        episode(chat(("task", 1), ("policy", length)), slot=slot, outcome=float(reward), reason=reason)
        for slot, (reward, reason, length) in enumerate(zip(WORKED.input["R"], ends, LENGTHS, strict=True))
    ]
    objective = build_objective(recipe.objective, recipe.rollout)
    batch = plan([group(*members)], objective=objective, eligible=POLICY)
    assert [a or 0.0 for a in row_advantages(batch)] == pytest.approx(ADVANTAGES[treatment])
    assert (batch.rows[2].withheld == "truncated") == (treatment in ("mask", "exclude"))


@dataclass
class Seeds(FakeEnvironment):
    """Notes the seeds that it is opened with, and breaks in its beginning."""

    seen: list[int] = field(default_factory=list)

    def open(self, task, *, seed, snapshot=None):
        self.seen.append(seed)
        return super().open(task, seed=seed, snapshot=snapshot)


@pytest.mark.parametrize("purpose", ["train", "evaluation"])
def test_a_retry_keeps_the_seeds_of_its_slot_and_says_what_it_repeats(purpose, tmp_path):
    renderer = small_renderer(tmp_path)
    engine = ScriptedEngine(lambda _: renderer.encode_turn("42").tolist())
    world = Seeds([observe("What is it?"), StepResult(observations=())])
    graded = FunctionVerifier(name="all", revision="1", grade=lambda _: Grade(value=1.0))
    episodes = Episodes(
        recipe=small_rl().recipe,
        engine=engine,
        environment=world,
        renderer=renderer,
        composition=Composition([Part(verifier=graded, weight=1.0)]),
        sandbox_profile=None,
        clock=FixedClock(),
        book=TimeBook(lambda: 0.0),
        places=asyncio.Semaphore(1),
    )

    def run(slot: int, attempt: int) -> Trajectory:
        lineage, parent = ("retry_of", f"before-{attempt}") if attempt else (None, None)
        if purpose == "evaluation":
            held_out = EvaluationAttempt(
                group_id=4, sample=slot, attempt=attempt, task=task(0), lineage=lineage, parent_trajectory_id=parent
            )
            return asyncio.run(episodes.evaluate(protocol(2), held_out))
        tried = Attempt(
            purpose="train",
            stage="rl",
            group_id=4,
            slot=slot,
            attempt=attempt,
            task=task(0),
            lineage=lineage,
            parent_trajectory_id=parent,
        )
        done = asyncio.run(episodes.train(tried))
        assert isinstance(done, Trajectory), "nothing is parked where nobody asked for it"
        return done

    first, again, other = run(1, 0), run(1, 1), run(2, 0)
    assert first.terminal_reason is TerminalReason.MODEL_END, first.failure_cause
    draws = [request.seed for request in engine.requests]
    assert draws[0] == draws[1] != draws[2] and len(set(world.seen)) == 1
    assert first.reset_seed == again.reset_seed == other.reset_seed == world.seen[0]
    assert (first.lineage, first.parent_trajectory_id) == (None, None)
    assert (again.lineage, again.parent_trajectory_id) == ("retry_of", "before-1")
