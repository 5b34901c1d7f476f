"""A sentence exists only where its least evidence does; upgrades that evidence does not license cannot be written."""

import dataclasses
from collections.abc import Sequence

import pytest

from rollwright.record.gates import Outcome
from rollwright.viewer.report import Claim, ClaimError, claims_of, read_runs
from rollwright.viewer.report.claims import (
    NEVER_CLAIMABLE,
    REQUIRED,
    Condition,
    pass_at_one,
    quantity,
    verb_of,
    weakest,
)
from rollwright.viewer.report.comparing import MeasuredRun
from tests.viewer.report.runs import (
    Shape,
    changed,
    configured,
    evaluated,
    evaluation_rows,
    gated,
    measured,
    of_manifest,
    read_one,
    scored,
    three_seeds,
    timed,
    written,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> MeasuredRun:
    """One run read from its folder; tests change its record."""
    return read_one(tmp_path_factory.mktemp("claims"), "made", Shape())


def claim_of(runs: Sequence[MeasuredRun], kind: str, about: str = "") -> Claim:
    found = [c for c in claims_of(runs) if c.kind.startswith(kind) and about in c.about]
    assert found, f"no claim of kind {kind}"
    return found[0]


def outcome_of(claim: Claim, requirement: str) -> str:
    return next(c.outcome for c in claim.conditions if requirement in c.requirement)


def named(runs: Sequence[MeasuredRun], name: str) -> list[MeasuredRun]:
    """Three seeds under another name."""
    return [changed(one, name=f"{name}{seed}") for seed, one in enumerate(runs)]


# --------------------------------------------------------------------------------------------------- training improves


def test_three_seeds_with_all_their_evidence_are_said_to_improve(tmp_path):
    runs = read_runs([written(tmp_path / f"seed{seed}", Shape(seed=seed)) for seed in range(3)])
    claim = claim_of(runs, "training improves")
    assert [c.outcome for c in claim.conditions] == ["passed"] * 6
    assert claim.sentence is not None
    assert claim.sentence.startswith("The experiment reports that training as in seed0 to seed2")
    # (11 − 2) / 12 in each run; limits were chosen, so the sentence wears an I.
    assert "+0.750" in claim.sentence and claim.sentence.endswith("(label I)")


def test_one_seed_is_not_said_to_improve_and_the_missing_seeds_are_named(run):
    claim = claim_of([run], "training improves")
    assert claim.sentence is None and claim.verdict == "not enough evidence"
    assert claim.refusal is not None and "three or more seeds (1 (0))" in claim.refusal


def test_one_seed_run_three_times_is_one_seed(run):
    again = [changed(run, name=name) for name in "abc"]
    assert outcome_of(claim_of(again, "training improves"), "three or more seeds") == "not enough evidence"


FEW, MANY = (True,) * 2 + (False,) * 10, (True,) * 11 + (False,)
ENTROPY, LENGTH = "last of entropy/full", "max of len/response"


@pytest.mark.parametrize(
    ("change", "requirement", "outcome"),
    [
        (lambda run: scored(run, FEW, (True,) * 3 + (False,) * 9), "gain on held-out", "not enough evidence"),
        (lambda run: scored(run, MANY, FEW), "gain on held-out", "failed"),
        (lambda run: changed(run, shared_tasks=2), "no held-out task was trained on", "failed"),
        (lambda run: evaluated(run, drop="gold"), "second verifier", "not enough evidence"),
        (
            lambda run: evaluated(
                run,
                evaluation_rows(0, "gold_success", 0.6, verifier="exact"),
                evaluation_rows(2, "gold_success", 0.4, verifier="exact"),
                drop="gold",
            ),
            "second verifier",
            "failed",
        ),
        (
            lambda run: evaluated(
                run,
                *(evaluation_rows(step, "gold_success", 0.4, verifier="exact") for step in (0, 2)),
                drop="gold",
            ),
            "second verifier",
            "not enough evidence",
        ),
        (lambda run: gated(run, {LENGTH: "passed"}), "entropy", "not enough evidence"),
        (lambda run: gated(run, {ENTROPY: "failed", LENGTH: "passed"}), "entropy", "failed"),
        (lambda run: gated(run, {ENTROPY: "passed"}), "length", "not enough evidence"),
        (lambda run: gated(run, {ENTROPY: "passed", LENGTH: "not enough evidence"}), "length", "not enough evidence"),
    ],
)
def test_each_missing_piece_of_evidence_withholds_the_sentence(run, change, requirement, outcome):
    claim = claim_of(three_seeds(change(run)), "training improves")
    assert outcome_of(claim, requirement) == outcome
    assert claim.sentence is None
    assert claim.refusal is not None and requirement in claim.refusal


# ---------------------------------------------------------------------------------------------------- claims of one run


def test_an_observation_is_said_of_one_run_with_its_intervals_and_its_protocol(run):
    claim = claim_of([run], "observed")
    assert claim.sentence is not None
    for part in ("0.167 [0.117, 0.217] at step 0", "0.917 [0.867, 0.967] at step 2", "12 tasks", "held-out", "one run"):
        assert part in claim.sentence


def test_a_run_that_was_evaluated_once_has_no_observation_of_a_change(run):
    once = changed(run, evaluations=tuple(row for row in run.numbers.evaluations if row.step == 0))
    assert claim_of([once], "observed").sentence is None


def test_a_lag_that_the_configuration_allows_is_no_asynchronous_training(run):
    allowed = configured(run, {"runtime.max_lag": 4})
    claim = claim_of([allowed], "trained asynchronously")
    assert claim.verdict == "failed" and claim.sentence is None
    said = claim_of([measured(allowed, "stale/lag_hist", 5.0, lag="2")], "trained asynchronously").sentence
    assert said is not None and "20.0%" in said


def test_a_tool_that_is_offered_is_no_tool_inside_training(run):
    said = claim_of([run], "tools inside training").sentence
    assert said is not None and "8 calls" in said
    claim = claim_of([changed(run, tools=())], "tools inside training")
    assert claim.sentence is None and claim.verdict == "failed"


def test_an_objective_is_named_only_where_its_updates_are(run):
    said = claim_of([run], "objective used").sentence
    assert said is not None and "grpo with denominator token_mean" in said
    silent = changed(run, metrics=tuple(line for line in run.numbers.metrics if line.name != "policy/loss"))
    assert claim_of([silent], "objective used").sentence is None


def test_a_checkpoint_is_bound_to_its_code_only_where_it_is_there(run):
    bound = claim_of([run], "checkpoint of this code")
    assert bound.sentence is not None and "code abc123" in bound.sentence
    loose = claim_of([changed(run, checkpoint=None)], "checkpoint of this code")
    assert loose.sentence is None and loose.chains[0].checkpoint_sha256 == "unknown"


def test_an_older_checkpoint_is_not_the_one_that_was_measured(run):
    older = dataclasses.replace(run.numbers.checkpoint, step=1)
    assert claim_of([changed(run, checkpoint=older)], "checkpoint of this code").sentence is None


def test_a_claim_whose_chain_is_broken_wears_a_u(run):
    claim = claim_of([changed(run, checkpoint=None)], "observed")
    assert claim.label == "U" and claim.sentence is not None and claim.sentence.endswith("(label U)")


def test_a_preset_matches_its_documentation_until_a_documented_value_is_changed(run):
    documented = {"run.labels.objective.kind": "D: arXiv:2503.14476", "run.labels.run.steps": "U: not disclosed"}
    kept = claim_of([configured(run, documented)], "preset matches")
    assert kept.sentence is not None and kept.sentence.startswith("The pinned code configures")
    assert "substituted for unknown: run.steps" in kept.sentence
    other = configured(configured(run, documented), {"objective.kind": "rloo"}, origin="command line")
    claim = claim_of([other], "preset matches")
    assert claim.verdict == "failed" and claim.sentence is None


def test_a_preset_without_documented_values_matches_nothing(run):
    assert claim_of([run], "preset matches").verdict == "not enough evidence"


def test_a_throughput_needs_a_baseline_that_is_configured_otherwise(run):
    assert claim_of([run], "throughput").sentence is None
    assert claim_of(three_seeds(run), "throughput").sentence is None
    base = changed(configured(run, {"runtime.max_lag": 3}), name="base")
    said = claim_of([run, base], "throughput", "made").sentence
    assert said is not None and "median of 150 action tokens" in said and "baseline base" in said


MIXED = {
    "tasks.generators.0.name": "arithmetic",
    "tasks.generators.0.weight": 1.0,
    "tasks.generators.1.name": "letters",
    "tasks.generators.1.weight": 1.0,
}


def test_a_mixture_works_where_every_domain_has_a_gate_and_shares_are_as_intended(run):
    mixed = gated(configured(run, MIXED), {"success (slice easy) under the frozen protocol": "passed"})
    [slots] = run.numbers.slots
    even = (dataclasses.replace(slots, count=8), dataclasses.replace(slots, source="letters", count=8))
    claim = claim_of([changed(mixed, slots=even)], "mixture works")
    assert claim.sentence is not None and claim.label == "I"
    skewed = (even[0], dataclasses.replace(even[1], count=4))
    assert claim_of([changed(mixed, slots=skewed)], "mixture works").verdict == "failed"
    assert claim_of([run], "mixture works").verdict == "not enough evidence"


def test_a_new_capability_is_never_said_without_an_elicited_base(run):
    claim = claim_of([run], "new capability")
    assert claim.sentence is None and outcome_of(claim, "properly elicited base") == "not enough evidence"


def test_a_loss_is_not_said_to_be_implemented_by_a_run_that_used_it(run):
    claim = claim_of([run], "loss is implemented")
    assert claim.sentence is None and "rollwright fixtures" in str(claim.refusal)


def test_confirmed_hacks_are_said_with_their_detector_their_number_and_an_upper_bound(run):
    assert claim_of([run], "confirmed hacks").sentence is None
    share = measured(run, "verifier/hack_confirmed", 0.02, of="labels")
    assert claim_of([share], "confirmed hacks").sentence is None
    said = claim_of([measured(share, "verifier/hack_confirmed", 0.07, of="labels", bound="upper")], "confirmed hacks")
    assert said.sentence is not None
    assert "a share of 0.020, at most 0.070 at 0.95, of confirmed hacks among 1 audited (of labels)" in said.sentence
    assert "what the detector cannot find is not counted" in said.sentence


# ---------------------------------------------------------------------------------------------------- arms beside arms


def with_errors(run: MeasuredRun, first: float, last: float) -> MeasuredRun:
    rows = [evaluation_rows(step, "success", value, slice="error") for step, value in ((0, first), (2, last))]
    return evaluated(run, *rows)


def without_tools(run: MeasuredRun) -> list[MeasuredRun]:
    bare = scored(configured(run, {"environment.tools": []}), FEW, (True,) * 4 + (False,) * 8)
    return named(three_seeds(bare), "without")


def test_tool_use_helps_beside_runs_without_tools_at_a_known_price(run):
    runs = [*three_seeds(with_errors(run, 0.2, 0.9)), *without_tools(run)]
    claim = claim_of(runs, "tool use helps", "made0")
    assert [c.outcome for c in claim.conditions] == ["passed"] * 3, claim.refusal
    assert claim.sentence is not None


def unpriced(run: MeasuredRun) -> MeasuredRun:
    return changed(run, tools=tuple(dataclasses.replace(tool, total_cost=None) for tool in run.numbers.tools))


@pytest.mark.parametrize(
    ("change", "requirement", "outcome"),
    [
        (lambda run: unpriced(with_errors(run, 0.2, 0.9)), "net success", "not enough evidence"),
        (lambda run: with_errors(run, 0.5, 0.52), "recovery", "not enough evidence"),
        (
            lambda run: measured(with_errors(run, 0.2, 0.9), "mask/observation_grad", 1.0),
            "no gradient on observations",
            "failed",
        ),
    ],
)
def test_tool_use_is_not_said_to_help_without_price_recovery_and_clean_masks(run, change, requirement, outcome):
    claim = claim_of([*three_seeds(change(run)), *without_tools(run)], "tool use helps", "made0")
    assert outcome_of(claim, requirement) == outcome and claim.sentence is None


def test_tool_use_is_not_said_to_help_without_runs_that_lack_tools(run):
    claim = claim_of(three_seeds(with_errors(run, 0.2, 0.9)), "tool use helps")
    assert outcome_of(claim, "net success") == "not enough evidence" and claim.sentence is None


def on_a_chip(run: MeasuredRun) -> MeasuredRun:
    return of_manifest(run, machine=dataclasses.replace(run.numbers.manifest.machine, accelerators=("a chip",)))


def with_another_credit(run: MeasuredRun) -> list[MeasuredRun]:
    other = scored(configured(run, {"objective.kind": "rloo"}), FEW, (True,) * 4 + (False,) * 8)
    return named(three_seeds(other), "theirs")


def test_a_credit_method_is_better_at_equal_interactions_and_hours(run):
    runs = [*three_seeds(on_a_chip(run)), *with_another_credit(on_a_chip(run))]
    claim = claim_of(runs, "credit method", "made0")
    assert [c.outcome for c in claim.conditions] == ["passed"] * 5, claim.refusal
    assert claim.sentence is not None
    assert (
        claim_of(runs, "credit method", "theirs0 to theirs2 (3 runs that differ in the seed) beside").sentence is None
    )


def test_what_is_watched_and_told_of_a_run_is_no_difference_of_its_objective(run):
    theirs = [configured(one, {"gates.0.name": "more", "exporters.0.kind": "tensorboard"}) for one in
              with_another_credit(on_a_chip(run))]  # fmt: skip
    ours = three_seeds(on_a_chip(run))
    assert claim_of([*ours, *theirs], "credit method", "made0").sentence is not None
    watched = [configured(one, {"gates.0.name": "more"}) for one in named(three_seeds(on_a_chip(run)), "watched")]
    claim = claim_of([*ours, *watched], "credit method", "made0")
    assert claim.sentence is None and claim.refusal is not None and "no runs beside it" in claim.refusal


def longer(run: MeasuredRun) -> MeasuredRun:
    return changed(run, costs=tuple(dataclasses.replace(c, episodes=2 * c.episodes) for c in run.numbers.costs))


@pytest.mark.parametrize(
    ("change", "requirement", "outcome"),
    [
        (longer, "equal environment interactions", "failed"),
        (lambda run: timed(run, 900.0), "accelerator hour", "not enough evidence"),
        (lambda run: measured(run, "env/invalid_action", 0.5), "no growth", "failed"),
        (
            lambda run: evaluated(run, evaluation_rows(2, "gold_disagreement", 0.3, verifier="exact"), drop="gold_dis"),
            "no growth",
            "failed",
        ),
        (lambda run: evaluated(run, drop="gold"), "no growth", "not enough evidence"),
    ],
)
def test_a_credit_method_is_not_better_at_unequal_cost_or_with_growing_faults(run, change, requirement, outcome):
    runs = [*three_seeds(on_a_chip(change(run))), *with_another_credit(on_a_chip(run))]
    claim = claim_of(runs, "credit method", "made0")
    assert outcome_of(claim, requirement) == outcome and claim.sentence is None


def test_without_an_accelerator_its_hours_are_unknown(run):
    claim = claim_of([*three_seeds(run), *with_another_credit(run)], "credit method", "made0")
    assert outcome_of(claim, "accelerator hour") == "not enough evidence" and claim.sentence is None


STALE: dict[str, Outcome] = {
    "max of policy/kl_beh_k3": "passed",
    "max of is/max": "passed",
    "share of evaluated episodes on which the reward disagrees with exact": "passed",
}


def some_gates(run: MeasuredRun, count: int) -> MeasuredRun:
    return gated(run, dict(list(STALE.items())[:count]))


def late(run: MeasuredRun) -> list[MeasuredRun]:
    """Three seeds that trained on older weights."""
    return named(three_seeds(configured(run, {"runtime.max_lag": 2})), "fast")


def test_asynchronous_runs_are_faster_where_quality_clock_and_limits_hold(run):
    runs = [*late(timed(gated(run, STALE), 1.0)), *three_seeds(timed(run, 3.0))]
    claim = claim_of(runs, "asynchronous is faster", "fast0")
    assert [c.outcome for c in claim.conditions] == ["passed"] * 5, claim.refusal
    assert claim.sentence is not None and "2.0, 2.0, 2.0 s, synchronous 6.0, 6.0, 6.0 s" in claim.sentence


@pytest.mark.parametrize(
    ("change", "requirement"),
    [
        (lambda run: timed(gated(run, STALE), 4.0), "reached sooner"),
        (lambda run: scored(timed(gated(run, STALE), 1.0), FEW, (True,) * 5 + (False,) * 7), "reached sooner"),
        (lambda run: timed(run, 1.0), "KL"),
        (lambda run: timed(some_gates(run, 1), 1.0), "importance weights"),
        (lambda run: timed(some_gates(run, 2), 1.0), "disagreement"),
    ],
)
def test_asynchronous_runs_are_not_faster_by_throughput_or_without_limits(run, change, requirement):
    claim = claim_of([*late(change(run)), *three_seeds(timed(run, 3.0))], "asynchronous is faster", "fast0")
    assert outcome_of(claim, requirement) == "not enough evidence" and claim.sentence is None


# -------------------------------------------------------------------------------------------------- forbidden upgrades


def test_a_vote_of_sixty_four_is_never_pass_at_one():
    vote = evaluation_rows(1, "maj_at_k", 0.9, k="64")
    assert quantity(vote) == "consensus@64"
    with pytest.raises(ClaimError, match="consensus@64 is not pass@1"):
        pass_at_one(vote)
    with pytest.raises(ClaimError, match="pass@8 is not pass@1"):
        pass_at_one(evaluation_rows(1, "pass_at_k", 0.9, k="8"))
    assert pass_at_one(evaluation_rows(1, "pass_at_k", 0.4, k="1")) == 0.4
    assert pass_at_one(evaluation_rows(1, "success", 0.4)) == 0.4


@pytest.mark.parametrize("kind", sorted(NEVER_CLAIMABLE))
def test_what_is_never_claimable_cannot_be_made_to_pass(kind):
    with pytest.raises(ClaimError, match="never claimable"):
        all_passed(kind)


def test_no_run_says_that_there_was_no_hacking_or_that_a_model_was_reproduced(run):
    runs = three_seeds(run)
    for claim in claims_of(runs):
        assert claim.kind not in NEVER_CLAIMABLE or claim.sentence is None
    hacking = claim_of(runs, "no reward hacking")
    assert "what both accept wrongly is unknown" in str(hacking.refusal)


@pytest.mark.parametrize("kind", sorted(set(REQUIRED) - NEVER_CLAIMABLE))
def test_every_other_claim_is_said_with_all_its_evidence_and_not_with_one_piece_less(kind):
    whole = all_passed(kind)
    assert whole.sentence is not None and whole.refusal is None
    for place in range(len(whole.conditions)):
        lacking = [
            dataclasses.replace(c, outcome="not enough evidence") if at == place else c
            for at, c in enumerate(whole.conditions)
        ]
        assert dataclasses.replace(whole, conditions=tuple(lacking)).sentence is None


@pytest.mark.parametrize("kind", sorted(REQUIRED))
def test_a_requirement_can_be_neither_left_out_nor_replaced(kind):
    conditions = tuple(Condition(requirement=r, outcome="failed", because="") for r in REQUIRED[kind])
    for wrong in (conditions[1:], (dataclasses.replace(conditions[0], requirement="it looks good"), *conditions[1:])):
        with pytest.raises(ClaimError, match="it answers"):
            Claim(kind=kind, about="a run", evidence="measured", conditions=wrong, finding="", chains=())


def test_the_verb_follows_from_the_evidence():
    said = {
        "vendor report": "the report states",
        "pinned source": "the pinned code configures",
        "measured": "the experiment reports",
        "arithmetic": "our audit computes",
        "mechanism": "this suggests",
        "undisclosed": "unknown:",
    }
    assert {kind: verb_of(kind) for kind in said} == said  # type: ignore[arg-type] - chosen by the test


def test_a_claim_wears_the_weakest_of_its_labels():
    assert weakest(("C", "D")) == "D" and weakest(("D", "I", "C")) == "I" and weakest(("I", "U")) == "U"
    claim = all_passed("observed")
    assert dataclasses.replace(claim, evidence="mechanism").label == "I"
    assert dataclasses.replace(claim, evidence="undisclosed").label == "U"


def all_passed(kind: str) -> Claim:
    return Claim(
        kind=kind,  # type: ignore[arg-type] - chosen by the test
        about="a run",
        evidence="measured",
        conditions=tuple(Condition(requirement=r, outcome="passed", because="seen") for r in REQUIRED[kind]),  # type: ignore[index] - chosen by the test
        finding="what was found",
        chains=(),
    )
