"""Claims that need several runs: seeds of one arm, or arms that differ in one thing."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from rollwright.evidence import manifest_differences
from rollwright.record.gates import Outcome
from rollwright.statistics import Interval
from rollwright.viewer.figures import Label
from rollwright.viewer.figures_run import RunNumbers
from rollwright.viewer.figures_tasks import TaskScores, shared_tasks
from rollwright.viewer.report.claims import REQUIRED, Claim, ClaimKind, Condition, weakest
from rollwright.viewer.report.claims_of_one import chain_of, judged, limits_on
from rollwright.viewer.report.comparing import Arm, MeasuredRun, follows_from_a_seed, mean_over_runs, trains_nothing
from rollwright.viewer.report.escaping import cell_text

__all__ = ["claims_of_arms"]

_FEWEST_SEEDS = 3
_CREDIT = ("configuration.objective.", "algorithm.")
_LAG = ("configuration.runtime.", "algorithm.")
_TOOLS = ("configuration.environment.", "environment.", "algorithm.")
_OF_CREDIT = ("env/invalid_action", "env/timeout", "len/trunc_rate")


def claims_of_arms(arms: Sequence[Arm]) -> tuple[Claim, ...]:
    """Every claim that needs seeds, or arms beside each other."""
    return (*(_improves(arm) for arm in arms), *_of_arms(arms))


def _improves(arm: Arm) -> Claim:
    pairs = [(run, _start_and_end(run)) for run in arm.runs]
    known = [(run, pair) for run, pair in pairs if pair is not None]
    gains = [_gain(*pair) for _, pair in known]
    value, bounds = mean_over_runs(gains) if len(known) == len(arm.runs) else (0.0, None)
    shared = sum(run.numbers.shared_tasks for run in arm.runs)
    held = "no run was evaluated before and after it by one protocol"
    measured = f"{value:+.3f}{_ends(bounds) or ', and one run has no interval over seeds'}"
    measured = measured if gains and len(known) == len(arm.runs) else held
    answers: list[Condition] = [
        _answer(len(arm.seeds) >= _FEWEST_SEEDS or None, f"{len(arm.seeds)} ({', '.join(map(str, arm.seeds))})"),
        _answer(_is_above_zero(bounds), measured),
        _answer(shared == 0 if known else None, f"{shared} tasks were both trained on and held out"),
        _second_verifier(arm),
        _limits(arm.runs, "entropy/full", "entropy/sampled"),
        _limits(arm.runs, "len/response", "response_tokens"),
    ]
    steps = ", ".join(sorted({f"{pair[0].step} to {pair[1].step}" for _, pair in known}))
    tasks = ", ".join(sorted({str(len(gain.success)) for gain in gains}))
    finding = (
        f"that training as in {arm.name} raised held-out success by {measured}, over {len(arm.seeds)} seeds "
        f"and {tasks} tasks a run, steps {steps}"
    )
    return _arm_claim("training improves", arm.name, arm.runs, answers, finding)


def _of_arms(arms: Sequence[Arm]) -> list[Claim]:
    found: list[Claim] = []
    for kind, differs, made in (
        ("credit method is better", _CREDIT, _credit),
        ("asynchronous is faster", _LAG, _faster),
        ("tool use helps", _TOOLS, _tool_use),
    ):
        pairs = [(one, other) for one, other in permutations(arms, 2) if _differ_only(one, other, differs)]
        chosen = [pair for pair in pairs if _is_of_interest(kind, *pair)]
        found += [made(*pair) for pair in chosen]
        if not chosen:
            found += [made(arm, None) for arm in arms]
    return found


def _credit(arm: Arm, other: Arm | None) -> Claim:
    kind: ClaimKind = "credit method is better"
    if other is None:
        return _alone(kind, arm, "no runs beside it that differ in the objective alone")
    enough = min(len(arm.seeds), len(other.seeds)) >= _FEWEST_SEEDS
    spent = {run.numbers.cost_at(run.numbers.last_step).episodes for run in (*arm.runs, *other.runs)}
    difference, bounds = _final_difference(arm, other)
    grown = [m for m in _OF_CREDIT if _mean_of(arm, m) > _mean_of(other, m) + 1e-9]
    apart = [_disagreement(one) for one in (arm, other)]
    grown += ["gold_disagreement"] if None not in apart and (apart[0] or 0.0) > (apart[1] or 0.0) + 1e-9 else []
    answers = [
        _answer(enough or None, f"{len(arm.seeds)} and {len(other.seeds)} seeds"),
        _answer(len(spent) == 1, f"{', '.join(f'{n:,}' for n in sorted(spent))} training episodes"),
        _answer(_is_above_zero(bounds), f"{difference:+.3f}{_ends(bounds)} at the last step"),
        _per_hour(arm, other),
        _answer(
            None if not grown and None in apart else not grown,
            f"grew: {', '.join(grown) or 'none'}; disagreement {' and '.join(map(cell_text, apart))}",
        ),
    ]
    finding = (
        f"that the objective of {arm.name} is better than that of {other.name} by {difference:+.3f}{_ends(bounds)}"
    )
    return _arm_claim(kind, f"{arm.name} beside {other.name}", (*arm.runs, *other.runs), answers, finding)


def _per_hour(arm: Arm, other: Arm) -> Condition:
    """Last success over accelerator hours of the steps; every run of one arm above every run of the other."""
    rates: list[list[float]] = []
    for one in (arm, other):
        hours = [
            len(run.numbers.manifest.machine.accelerators) * run.numbers.cost_at(run.numbers.last_step).seconds / 3600
            for run in one.runs
        ]
        if 0.0 in hours or not all(run.own_scores for run in one.runs):
            return _answer(None, "no accelerator, no time or no evaluation: accelerator hours are unknown")
        rates.append([_mean(run.own_scores[-1]) / spent for run, spent in zip(one.runs, hours, strict=True)])
    said = " and ".join(", ".join(f"{rate:.3g}" for rate in part) for part in rates)
    return _answer(True if min(rates[0]) > max(rates[1]) else None, f"{said} an hour")


def _faster(arm: Arm, other: Arm | None) -> Claim:
    kind: ClaimKind = "asynchronous is faster"
    if other is None:
        return _alone(kind, arm, "no runs beside it that differ in the lag alone")
    enough = min(len(arm.seeds), len(other.seeds)) >= _FEWEST_SEEDS
    lasts = [run.own_scores[-1] for run in other.runs if run.own_scores]
    target = mean_over_runs(lasts)[0] if lasts else float("inf")
    ours, theirs = ([_seconds_to(run, target) for run in one.runs] for one in (arm, other))
    sooner = max(ours) < min(theirs)
    said = f"success {target:.3f} after {_listed(ours)} s, synchronous {_listed(theirs)} s"
    answers = [
        _answer(enough or None, f"{len(arm.seeds)} and {len(other.seeds)} seeds"),
        _answer(True if sooner else None, said),
        _limits(arm.runs, "policy/kl_beh", "policy/kl_beh_k3"),
        _limits(arm.runs, "is/max", "is/ess", "is/ess_frac", "is/quantiles", "is/frac_truncated"),
        _limits(arm.runs, "share of evaluated episodes", "gold_disagreement", "verifier/disagreement"),
    ]
    finding = f"that {arm.name} came sooner to the success of {other.name}: {said}"
    return _arm_claim(kind, f"{arm.name} beside {other.name}", (*arm.runs, *other.runs), answers, finding)


def _tool_use(arm: Arm, other: Arm | None) -> Claim:
    priced = [run.numbers for run in arm.runs if all(tool.total_cost is not None for tool in run.numbers.tools)]
    if other is None:
        net = _answer(None, "no runs without tools beside it")
    elif len(priced) < len(arm.runs):
        difference, bounds = _final_difference(arm, other)
        net = _answer(None, f"{difference:+.3f}{_ends(bounds)} before any cost; the tools have no price in the record")
    else:
        difference, bounds = _final_difference(arm, other)
        cost = sum(tool.total_cost or 0.0 for n in priced for tool in n.tools if tool.purpose == "evaluation")
        net = _answer(
            _is_above_zero(bounds) if cost == 0 else None,
            f"{difference:+.3f}{_ends(bounds)}, cost {cost:g} to be weighed",
        )
    touched = [_sum_of(run.numbers, "mask/observation_grad") for run in arm.runs]
    clean = None if any(one is None for one in touched) else all(one == 0 for one in touched)
    answers = [
        net,
        _recovery(arm),
        _answer(
            clean, f"trained observation tokens: {', '.join('unknown' if t is None else f'{t:g}' for t in touched)}"
        ),
    ]
    finding = f"that tools helped in {arm.name}: {net.because}"
    return _arm_claim("tool use helps", arm.name, arm.runs, answers, finding)


def _recovery(arm: Arm) -> Condition:
    """Success on slices of tool errors, last against the supervised start; intervals apart in every run."""
    said: list[str] = []
    apart: list[bool] = []
    for run in arm.runs:
        pair = _start_and_end(run)
        for place in () if pair is None else sorted(_error_slices(run.numbers)):
            first, last = (_slice(run.numbers, place, scores.step) for scores in pair or ())
            if first is None or last is None:
                continue
            apart.append(last[0] > first[1])
            said.append(f"{run.numbers.name}, {place}: {_range(first)}, then {_range(last)}")
    return _answer(True if apart and all(apart) else None, "; ".join(said) or "no slice of tool errors was evaluated")


def _second_verifier(arm: Arm) -> Condition:
    said: list[str] = []
    gains: list[float] = []
    for run in arm.runs:
        pair = _start_and_end(run)
        rows = {
            row.step: row
            for row in run.numbers.evaluations
            if row.metric == "gold_success" and "slice" not in row.labels
        }
        ends = [] if pair is None else [rows[s.step].value for s in pair if s.step in rows]
        if len(ends) < 2 or ends[0] is None or ends[1] is None:
            return _answer(None, f"no gold verifier judged both ends of {run.numbers.name}")
        gains.append(ends[1] - ends[0])
        said.append(f"{run.numbers.name}: {ends[0]:.3f} then {ends[1]:.3f}")
    if min(gains) < 0:
        return _answer(all(gain >= 0 for gain in gains), "; ".join(said))
    return _answer(True if min(gains) > 0 else None, "; ".join(said))


def _limits(runs: Sequence[MeasuredRun], *metrics: str) -> Condition:
    """Gates on these metrics in every run; the worst of them, with all of their labels."""
    found = [(run.numbers, limits_on(run.numbers, *metrics)) for run in runs]
    missing = [numbers.name for numbers, limit in found if limit is None]
    if missing:
        return _answer(None, f"no gate on {' or '.join(metrics[:2])} was declared before {', '.join(missing)}")
    limits = [limit for _, limit in found if limit is not None]
    order: tuple[Outcome, ...] = ("failed", "not enough evidence", "passed")
    worst = min(limits, key=lambda one: order.index(one.outcome))
    return replace(worst, label=weakest(tuple(one.label for one in limits)))


def _start_and_end(run: MeasuredRun) -> tuple[TaskScores, TaskScores] | None:
    """The newest evaluation before reinforcement learning began, or the first, and the last."""
    supervised = {one.stage for one in run.numbers.manifest.algorithm if one.estimator == "supervised"}
    learned = [step for step, stage in run.numbers.stages.items() if stage not in supervised]
    scores = run.own_scores
    before = [one for one in scores if one.step < min(learned, default=1)]
    if not scores or not (start := before[-1] if before else None) or scores[-1].step <= start.step:
        return None
    return start, scores[-1]


def _gain(first: TaskScores, last: TaskScores) -> TaskScores:
    tasks = shared_tasks((first, last))
    return replace(last, success={task: last.success[task] - first.success[task] for task in tasks})


def _final_difference(arm: Arm, other: Arm) -> tuple[float, Interval | None]:
    """Mean over pairs of one seed of the difference of the last evaluations; task by task where both have the tasks."""
    deltas: list[TaskScores] = []
    for run in arm.runs:
        seed = run.numbers.manifest.seeds.get("run")
        twin = next((one for one in other.runs if one.numbers.manifest.seeds.get("run") == seed), None)
        if twin is None or not run.own_scores or not twin.own_scores:
            continue
        pair = twin.own_scores[-1], run.own_scores[-1]
        if shared_tasks(pair):
            deltas.append(_gain(*pair))
    return mean_over_runs(deltas) if deltas else (0.0, None)


def _differ_only(one: Arm, other: Arm, allowed: tuple[str, ...]) -> bool:
    paths = [d.path for d in manifest_differences(one.runs[0].numbers.manifest, other.runs[0].numbers.manifest)]
    told = [path for path in paths if not trains_nothing(path)]
    return bool(told) and all(path.startswith(allowed) or follows_from_a_seed(path) for path in told)


def _is_of_interest(kind: str, one: Arm, other: Arm) -> bool:
    ours, theirs = (arm.runs[0].numbers.configuration for arm in (one, other))
    match kind:
        case "asynchronous is faster":
            return ours.get("runtime.max_lag", "0") != "0" and theirs.get("runtime.max_lag", "0") == "0"
        case "tool use helps":
            return ours.get("environment.tools", "[]") != "[]" and theirs.get("environment.tools", "[]") == "[]"
        case _:
            return any(ours.get(k) != theirs.get(k) for k in {*ours, *theirs} if k.startswith("objective."))


def _arm_claim(
    kind: ClaimKind, about: str, runs: Sequence[MeasuredRun], answers: Sequence[Condition], finding: str
) -> Claim:
    return Claim(
        kind=kind,
        about=about,
        evidence="measured",
        conditions=tuple(
            replace(answer, requirement=requirement)
            for requirement, answer in zip(REQUIRED[kind], answers, strict=True)
        ),
        finding=finding,
        chains=tuple(chain_of(run.numbers) for run in runs),
    )


def _alone(kind: ClaimKind, arm: Arm, because: str) -> Claim:
    return _arm_claim(kind, arm.name, arm.runs, [_answer(None, because) for _ in REQUIRED[kind]], "")


def _answer(is_met: bool | None, because: str, label: Label = "C") -> Condition:  # noqa: FBT001 - the answer to be told
    outcome, text = judged(is_met, because)
    return Condition(requirement="", outcome=outcome, because=text, label=label)


def _is_above_zero(bounds: Interval | None) -> bool | None:
    if bounds is None or bounds.low <= 0 <= bounds.high:
        return None
    return bounds.low > 0


def _ends(bounds: Interval | None) -> str:
    return "" if bounds is None else f" [{bounds.low:+.3f}, {bounds.high:+.3f}] ({bounds.method} at {bounds.level:g})"


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f}"


def _seconds_to(run: MeasuredRun, target: float) -> float:
    reached = [scores.step for scores in run.own_scores if scores.step > 0 and _mean(scores) >= target - 1e-9]
    return run.numbers.cost_at(min(reached)).seconds if reached else float("inf")


def _mean(scores: TaskScores) -> float:
    return float(np.mean(list(scores.success.values())))


def _disagreement(arm: Arm) -> float | None:
    """Of the last evaluations, mean over runs; None where one has no gold verifier."""
    rows = [
        [r for r in run.numbers.evaluations if r.metric == "gold_disagreement" and "slice" not in r.labels]
        for run in arm.runs
    ]
    values = [part[-1].value if part else None for part in rows]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _listed(seconds: Sequence[float]) -> str:
    return ", ".join("never" if np.isinf(one) else f"{one:.1f}" for one in seconds)


def _mean_of(arm: Arm, metric: str) -> float:
    lines = [run.numbers.line(metric) for run in arm.runs]
    values = [value for line in lines if line is not None for value in line.values if value is not None]
    return float(np.mean(values)) if values else 0.0


def _sum_of(numbers: RunNumbers, metric: str) -> float | None:
    line = numbers.line(metric)
    return None if line is None else sum(value or 0.0 for value in line.values)


def _error_slices(numbers: RunNumbers) -> set[str]:
    return {row.labels["slice"] for row in numbers.evaluations if "error" in row.labels.get("slice", "").lower()}


def _slice(numbers: RunNumbers, name: str, step: int) -> tuple[float, float] | None:
    own = numbers.manifest.evaluation.protocol_sha256
    for row in numbers.evaluations:
        if (row.metric, row.step, row.labels, row.protocol_sha256) == ("success", step, {"slice": name}, own):
            return None if row.low is None or row.high is None else (row.low, row.high)
    return None
