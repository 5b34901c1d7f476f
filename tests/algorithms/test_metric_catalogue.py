"""The table of metrics says what runs write, and runs write nothing that it does not say."""

import ast
import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import rollwright
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.diagnostics.distillation import distillation_diagnostics
from rollwright.algorithms.diagnostics.token_values import STRATIFIED
from rollwright.algorithms.presets import grpo
from rollwright.algorithms.sampling.dynamic_sampling import ProposedGroup
from rollwright.batches import (
    BatchRules,
    ReferenceScores,
    batch_metrics,
    plan_step,
    plan_updates,
    update_metrics,
    with_score,
)
from rollwright.batches.strata import strata_of
from rollwright.evaluation import Baseline
from rollwright.evaluation.measures import Beside, measure
from rollwright.recipes.audits.kept import audit_metrics
from rollwright.recipes.audits.of_runs import Disagreement, Flakiness, Labeled, Retold
from rollwright.record import Group, TerminalReason
from rollwright.record.metrics import METRICS, STRATA, metric_named
from rollwright.runtime.collected_metrics import (
    duplicates_refused,
    outcomes_before_filter,
    restore_seconds,
    watchdog_restarts,
)
from rollwright.runtime.learning import queue_metrics, reference_metrics
from rollwright.runtime.metrics import StepClock, StepEpisodes, step_metrics
from rollwright.runtime.mixing import SourceMix
from rollwright.runtime.probes import ProbeReport, probe_metrics
from rollwright.runtime.prompt_metrics import PromptWatch
from rollwright.runtime.timebook import PartTimes
from rollwright.statistics import wilson_interval
from rollwright.statistics.verifier_audit import MetamorphicGap, VerifierAudit
from tests.batches.episodes import NOW, POLICY, chat, episode, group, outcome_of
from tests.evaluation.held_out import judged, protocol, scored
from tests.recipes.test_kept_audits import audit
from tests.runtime.ledger_rows import ledger_row
from tests.runtime.test_grader_metrics import verdict
from tests.runtime.test_metrics import member

SOURCE = Path(rollwright.__file__).parent
ROOMS = {path.name for path in SOURCE.iterdir() if path.is_dir()} | {"planning", "sandboxes", "viewer"}
SURVEY = """
policy/kl_beh policy/kl_ref policy/clip_frac policy/dual_clip policy/outer_clip policy/mask_frac policy/grad_norm
policy/update_norm policy/lr is/ess is/ess_frac is/quantiles is/max is/frac_truncated is/chi2 is/ppl_ratio
mismatch/logp_abs mismatch/prob_corr mismatch/token_ids mismatch/topk_identity mismatch/greedy_match entropy/full
entropy/sampled entropy/coef clip_k entropy/cov_share explore/unique_answers explore/unique_programs
explore/tool_choice_entropy explore/repeated_traj_rate explore/pass_at_k explore/pass_at_1 value/explained_var
value/loss reward/total reward/component reward/zero_var_frac reward/all_right reward/all_wrong reward/hist_by_prompt
reward/difficulty heldout/success heldout/gold_gap verifier/disagreement verifier/fp_rate verifier/fn_rate
verifier/flaky_rate verifier/ipt_fail verifier/hack_gap verifier/hack_confirmed judge/position_gap judge/len_corr
len/response len/trunc_rate terminal/reason env/invalid_action env/parser_error env/timeout env/crash env/violation
env/tool_calls env/tool_latency env/steps env/cost_per_success env/replay_fail env/kv_replay_fail data/proposed
data/accepted data/filtered data/truncated data/retried data/unique_prompt_clusters data/contamination data/coef_mass
ptgs/fallback_rows ptgs/temperature stale/lag stale/lag_hist n_versions stale/queue_age stale/cancelled
stale/dropped_stale group/incomplete group/dropped group/padded mask/observation_grad mask/eligible_tokens
mask/nonfinite_tokens mask/empty_rows mask/ratio_clamped mask/k3_clamped mask/rewards_moved loss/denominator
moe/router_load distill/teacher_gap distill/forward_kl distill/reverse_kl sys/rollout sys/verify sys/learn sys/sync
sys/idle sys/tokens_s sys/accepted_per_gpu_hour sys/weight_sync_s sys/restore_s sys/watchdog_restarts
sys/duplicates_refused sys/infra_excluded
""".split()


def full_update():
    """An update in which every stream is there, with rows of two sources and lengths."""
    sizes = ((3, "code"), (200, "math"))
    members = [
        episode(chat(("task", 1), ("policy", n)), slot=slot, outcome=float(slot), source=source)
        for slot, (n, source) in enumerate(sizes)
    ]
    objective = replace(grpo(), correction=TruncatedRatio(), needs=frozenset({"behavior", "proximal"}))
    batch = plan_step([group(*members)], step=1, objective=objective, eligible=POLICY, rules=BatchRules(max_lag=0))
    batch = with_score(batch, "teacher", np.where(batch.action_mask, np.float32(-1), np.float32(np.nan)))
    critic = with_score(batch, "predicted", np.where(batch.action_mask, np.float32(0.5), np.float32(np.nan)))
    (plan,) = plan_updates(batch, objective, first_update=1, num_minibatches=1)
    outcome = outcome_of(plan, objective, coefficients={"kl": 0.1, "entropy": 0.01, "surrogate.high": 1.3})
    outcome = replace(outcome, reference=outcome.proximal)
    late = replace(batch, rows=tuple(replace(row, withheld="stale") for row in batch.rows))
    scores = ReferenceScores(logprobs=batch.behavior, weight_bytes=8)
    return (
        *reference_metrics(scores, batch, seconds=0.5, now=NOW),
        *update_metrics(plan, outcome, objective, now=NOW),
        *batch_metrics(replace(critic, value_targets=batch.advantages), success_at=1.0, now=NOW),
        *batch_metrics(late, success_at=1.0, now=NOW),
    ), {one.label for one in strata_of(plan, success_at=1.0)}


def full_step():
    part = [("answer", 1.0, 1.0)]
    members = [
        member(0, 1.0, components=part, statuses=["ok"], source="math"),
        member(1, 0.0, components=part),
        member(2, "grader_error"),
        member(3, 0.0, reason=TerminalReason.TOKEN_LIMIT),
    ]
    members[0] = replace(members[0], verdicts=(verdict("exact", 1.0),))
    lost = member(9, 0.0)
    rows = [ledger_row(m, "trained") for m in members] + [ledger_row(lost, "filtered", rule="no_contrast")]
    episodes = StepEpisodes(
        members=members,
        others=[lost],
        success_at=1.0,
        groups=[Group(group_id=0, task=members[0].trajectory.task, size=4, members=tuple(members))],
        ledger=rows,
        num_useful=1,
    )
    parts = PartTimes(seconds={("engine", "busy"): 1.5})
    clock = StepClock(collect_s=2.0, learn_s=1.0, publish_s=0.5, save_s=0.25, parts=parts)
    mix = SourceMix({"math": 0.5, "code": 0.5}, "deficit")
    mix.dispatched("math")
    mix.accepted("math", 10)
    seen = outcomes_before_filter([ProposedGroup(group_id=0, source="math", rewards=(0.0, 1.0))], success_at=1.0)
    prompts = PromptWatch([members[0].trajectory.task]).see(episodes.groups)
    measures = (*prompts, *mix.report(), *seen, duplicates_refused(0), watchdog_restarts(0), restore_seconds(0.5))
    of_step = step_metrics(1, episodes, balance={"trained": 3}, clock=clock, now=NOW, measures=measures)
    return (*queue_metrics(episodes.groups, step=1, now=NOW), *of_step)


def full_audit():
    counts = VerifierAudit(
        accepted=8, audited_accepted=4, false_accepts=1, rejected=8, audited_rejected=4, false_rejects=1
    )
    errors = counts.errors()
    rate = wilson_interval(1, 4)
    found = audit(
        labeled=Labeled(
            num=8, overall=errors, by_source={"s": errors}, counts={"s": counts}, false_accepts=("t",), false_rejects=()
        ),
        disagreement=Disagreement(
            verifier="v", num=4, num_errors=0, rate=rate, kappa=None, run_alone=("t",), other_alone=()
        ),
        flakiness=Flakiness(num=4, repeats=2, rate=rate, flaky=("t",)),
        retold=(
            Retold(
                transform="t",
                kind="renaming",
                num=1,
                gap=MetamorphicGap(hack_gap=0.0, failure_rate=0.0),
                lost=(),
            ),
        ),
    )
    return audit_metrics(found, step=1, number=1, now=NOW)


def full_distillation():
    logits = torch.zeros(1, 3)
    return distillation_diagnostics(logits, logits, torch.ones(1, dtype=torch.bool))


def full_probe():
    report = ProbeReport(
        version=1,
        num_positions=9,
        greedy_match=1.0,
        topk_identity=0.5,
        max_logit_gap=0.1,
        max_logprob_gap=0.1,
        faults=(),
    )
    return probe_metrics(report, step=1, now=NOW)


def test_every_metric_of_the_survey_has_a_name_a_formula_and_a_unit():
    assert [name for name in SURVEY if metric_named(name) is None] == []
    assert [one.name for one in METRICS if not (one.name and one.formula and one.unit)] == []


def test_a_name_stands_once():
    names = [name for one in METRICS for name in (one.name, *one.known_as)]
    assert sorted(set(names)) == sorted(names)
    assert metric_named("nothing/of_this_name") is None


def test_the_list_loads_where_torch_is_missing():
    code = "import sys; sys.modules['torch'] = None; from rollwright.record.metrics import METRICS; print(len(METRICS))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ended.stdout) == len(METRICS)


def test_every_metric_is_made_by_a_function_or_left_to_a_room():
    for one in METRICS:
        assert bool(one.by) != bool(one.later), one.name
        if one.by:
            module, name = one.by.split(":")
            assert callable(vars(importlib.import_module(module))[name]), one.name
        else:
            assert one.later in ROOMS, one.name


def test_what_is_stratified_is_what_the_table_says():
    assert {one.name for one in METRICS if one.strata == STRATA} == STRATIFIED


def test_only_time_rates_and_memory_are_left_out_of_the_hash_of_a_run():
    for one in METRICS:
        assert one.is_measured == (one.unit in ("s", "tokens/s", "1/h", "bytes")), one.name


def test_a_run_writes_exactly_what_the_table_says_is_made():
    of_update, strata = full_update()
    assert strata == set(STRATA)
    written = [*of_update, *full_step(), *full_probe(), *full_audit(), *full_distillation()]
    for metric in written:
        entry = metric_named(metric.name)
        assert entry is not None and entry.name == metric.name, metric.name
        assert entry.table == "metrics" and entry.by, metric.name
        assert entry.unit == metric.unit, metric.name
        allowed = {"model", *entry.labels, *entry.strata}
        assert metric.labels.keys() <= allowed, (metric.name, metric.labels)
    made = {one.name for one in METRICS if one.by and one.table == "metrics"}
    assert {metric.name for metric in written} == made
    labelled = {one.name: {label for m in written if m.name == one.name for label in m.labels} for one in METRICS}
    unused = {one.name: set(one.labels) - labelled[one.name] for one in METRICS if one.name in made}
    assert {name for name, labels in unused.items() if labels} <= {"len/trunc_rate"}


def test_an_evaluation_writes_exactly_what_the_table_says_is_made():
    members = [
        judged(scored(task, float(task == sample), sample=sample, part=part, calls=("ok",)), gold=0.0)
        for task, part in enumerate(("easy", "hard"))
        for sample in (0, 1)
    ]
    beside = Beside(
        answers={m.trajectory_id: str(m.outcome) for m in members},
        baseline=Baseline(step=0, counts={m.trajectory.task.task_id: (2, 1) for m in members}),
    )
    rows = measure(protocol(samples=2, gold="1", gold_verifier="gold"), members, beside, step=1, now=NOW)
    entries = {one.name: one for one in METRICS if one.table == "evaluations"}
    assert {row.metric for row in rows} == entries.keys()
    for row in rows:
        assert row.labels.keys() <= set(entries[row.metric].labels), row.metric


@pytest.mark.parametrize("room", ["algorithms", "batches", "learner", "runtime", "evaluation", "rollout"])
def test_no_name_of_a_metric_in_the_source_is_missing_in_the_table(room):
    prefixes = {one.name.split("/")[0] for one in METRICS if "/" in one.name}
    unknown: list[tuple[str, str]] = []
    for path in sorted((SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            prefix, slash, rest = text.partition("/")
            if slash and prefix in prefixes and rest.isidentifier() and metric_named(text) is None:
                unknown.append((path.name, text))
    assert unknown == []
