"""Runs whose credit reads what the learner scored before it: entropies, masses, and distances from a reference."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rollwright.algorithms.objective import Objective
from rollwright.batches import StepBatch, give_credit, lay_out
from rollwright.batches.rules import BatchRules
from rollwright.evidence import StoredRun, check, query, table_hashes
from rollwright.learner.causal_learner import CausalLearner, LearnerSettings, make_learner
from rollwright.learner.models import load_causal_lm
from rollwright.learner.optimizer import OptimizerSettings, Schedule
from rollwright.recipes.build.objective import build_objective
from rollwright.recipes.resolve import Resolved
from rollwright.recipes.runs import TrainOrder, stored_recipe, train_run
from tests.end_to_end.cells import number
from tests.end_to_end.children import start_command
from tests.end_to_end.small import RECIPE, Listener, arguments, small, small_rl

BETA = 0.125
OWN = ("evaluation.tasks=4", "runtime.keep_every=1", "rollout.max_turn_tokens=120")
"""Longer turns, of which more end by themselves, and a checkpoint of every step."""
POLICY = frozenset({("policy", "policy")})
GENEROUS = 'verifier.parts=[{kind="custom", path="tests.end_to_end.parts:generous"}]'
CENTERED = 'objective.credit={kind="group_centered"}'
LEVEL = (
    'objective.credit={kind="level_groups", alpha=0.5, base="group_centered"}',
    "objective.reward_scaling=group_std",
)
TOKENS = ('objective.credit={kind="optimal_token_baseline"}',)
SHAPED = (
    'objective.credit={kind="group_centered"}',
    f"objective.kl_coefficient={BETA}",
    "objective.kl_place=advantages",
)
REMEMBERING = (
    'objective.credit={kind="running_baseline", decay=0.5}',
    "objective.kl_coefficient=0.1",
    "objective.kl_place=row_rewards",
    "objective.kl_target=1e-3",
    "objective.kl_horizon=64",
    "learner.num_minibatches=2",
    "run.steps=4",
    "evaluation.every=4",
    "evaluation.tasks=4",
    "stages.warm_start.steps=2",
    "runtime.checkpoint_every=2",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A finished run with the objective that it had."""

    path: Path
    objective: Objective


def ran(path: Path, *settings: str) -> Ran:
    resolved = small_rl(*OWN, *settings)
    train_run(TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False), Listener())
    assert check(path).findings == ()
    return Ran(path=path, objective=objective_of(resolved))


def objective_of(resolved: Resolved) -> Objective:
    return build_objective(resolved.recipe.objective, resolved.recipe.rollout)


def grad_norms(run: Path) -> list[float]:
    rows = query(run, """SELECT value FROM metrics WHERE name = 'policy/grad_norm' ORDER BY "update" """).rows
    return [number(value) for (value,) in rows]


@pytest.mark.row("S189")
def test_groups_that_all_passed_train_the_policy(tmp_path: Path) -> None:
    # Every attempt is paid 1; those that were cut leave the loss, and all others are of groups that passed.
    passed = (GENEROUS, "rollout.truncation=mask")
    run = ran(tmp_path / "level", *passed, *LEVEL)
    assert len(grad_norms(run.path)) == 2 and all(norm > 0 for norm in grad_norms(run.path))
    rows = query(
        run.path,
        """SELECT min(reward), max(reward), count(*),
             count(*) FILTER (list_min(expand(advantage)) > 0 AND influence > 0)
           FROM receipts JOIN trajectories USING (trajectory_id) WHERE num_kept > 0""",
    ).rows
    ((lowest, highest, num_trained, num_pushed),) = rows
    assert lowest == highest == 1.0
    assert number(num_trained) == number(num_pushed) > 4
    plain = ran(tmp_path / "plain", *passed, CENTERED)
    assert not any(grad_norms(plain.path)), "without entropies such groups teach nothing"


def test_a_token_baseline_trains_and_its_scores_stand_in_the_receipts(tmp_path: Path) -> None:
    run = ran(tmp_path / "tokens", *TOKENS)
    assert all(norm > 0 for norm in grad_norms(run.path))
    learner = learner_before(run.path, 2)
    learner.reference = None
    batch = credited(run.path, 2, run.objective, learner)
    assert batch.scores.keys() == {"proximal", "sum_squared_probabilities"}
    assert_receipts_hold(run.path, 2, batch)


def test_a_kl_in_the_reward_changes_each_advantage_of_a_stored_batch_by_minus_beta_times_the_distance(
    tmp_path: Path,
) -> None:
    run = ran(tmp_path / "shaped", *SHAPED, "run.steps=3")
    learner = learner_before(run.path, 3)
    batch = credited(run.path, 3, run.objective, learner)
    assert batch.scores.keys() == {"proximal", "reference"}
    plain = credited(run.path, 3, objective_of(small_rl(CENTERED)), learner)
    acts = batch.acts
    distance = batch.scores["proximal"].astype(np.float64) - batch.scores["reference"]
    assert np.abs(distance[acts]).max() > 1e-3, "the policy has left its reference"
    assert np.array_equal(batch.advantages[acts], plain.advantages[acts] + -BETA * distance[acts])
    assert_receipts_hold(run.path, 3, batch)


def learner_before(run: Path, step: int) -> CausalLearner:
    """The learner as a stored run had it before a step: weights and reference of the checkpoint before."""
    checkpoint = run / "checkpoints" / f"step-{step - 1:06d}"
    settings = LearnerSettings(optimizer=OptimizerSettings(schedule=Schedule(learning_rate=1e-3)))
    learner = make_learner(load_causal_lm(checkpoint), settings)
    learner.restore(checkpoint)
    return learner


def credited(run: Path, step: int, objective: Objective, learner: CausalLearner) -> StepBatch:
    """The batch of a stored step with its credit made again."""
    rules = BatchRules(max_lag=0)
    draft = lay_out(StoredRun(run).groups("train", step), step=step, eligible=POLICY, rules=rules)
    return give_credit(learner.score_before_credit(draft, objective), objective, rules=rules)


def assert_receipts_hold(run: Path, step: int, batch: StepBatch) -> None:
    """The run trained on these advantages, and recorded these proximal scores."""
    rows = query(
        run,
        f"""SELECT trajectory_id, segment, expand(advantage), proximal_logprobs FROM receipts
            WHERE step = {step} AND num_kept > 0 AND proximal_logprobs IS NOT NULL""",
    ).rows
    num_tokens = 0
    for trajectory_id, segment, advantages, proximal in rows:
        (row,) = [
            number
            for number, one in enumerate(batch.rows)
            if batch.members[one.member].trajectory_id == trajectory_id and segment in one.owns
        ]
        tokens = slice(*(int(offset) for offset in batch.row_offsets[row : row + 2]))
        here = batch.segment_ids[tokens] == segment
        assert np.array_equal(np.asarray(advantages, np.float32), batch.advantages[tokens][here].astype(np.float32))
        assert np.array_equal(np.asarray(proximal, np.float32), batch.scores["proximal"][tokens][here])
        num_tokens += int(here.sum())
    assert num_tokens == int(batch.action_mask.sum()) > 0


# ------------------------------------------------------------------------------------------ the same run in other ways


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory inside a KL in the reward, whose coefficient moves: every kind of state at once."""
    path = tmp_path_factory.mktemp("before_credit") / "remembering"
    train_run(TrainOrder(resolved=small(*REMEMBERING), run_dir=path, source=None, is_rollouts_only=False), Listener())
    assert check(path).findings == ()
    return path


def test_a_killed_run_scores_before_credit_what_it_would_have(remembering: Path, tmp_path: Path) -> None:
    run = tmp_path / "killed"
    child = start_command(["train", RECIPE, "--json", "--run-dir", run, *arguments(*REMEMBERING)], tmp_path)
    # The sixth commit is that of step 5; the newest checkpoint is then of step 4.
    assert child.wait_for(lambda: any((run / "commits").glob("000006*"))), "the run ended before it came there"
    child.kill()
    ended = start_command(["resume", run, "--json"], tmp_path).ended()
    assert ended.code == 0, ended.err
    assert table_hashes(run) == table_hashes(remembering)


def test_a_stored_run_learned_from_again_scores_before_credit_the_same(remembering: Path, tmp_path: Path) -> None:
    order = TrainOrder(
        resolved=stored_recipe(remembering, ()), run_dir=tmp_path / "again", source=remembering, is_rollouts_only=False
    )
    train_run(order, Listener())
    before, after = table_hashes(remembering), table_hashes(tmp_path / "again")
    assert after["receipts"] == before["receipts"]


def test_the_coefficient_of_a_kl_in_the_reward_follows_the_distance(remembering: Path) -> None:
    rows = query(
        remembering,
        """SELECT name, value FROM metrics WHERE name IN ('policy/coef', 'policy/kl_ref') AND value IS NOT NULL
           AND NOT list_has_any(map_keys(labels), ['source', 'length', 'turn']) ORDER BY "update" """,
    ).rows
    coefficients = [value for name, value in rows if name == "policy/coef"]
    assert len(coefficients) == 8 and coefficients[0] == 0.1 and len(set(coefficients)) > 1
