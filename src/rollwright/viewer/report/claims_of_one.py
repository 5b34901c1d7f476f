"""Claims about one run: what it did, and what is bound to it."""

import json
from collections.abc import Mapping, Sequence
from statistics import median

from rollwright.evidence import UNKNOWN
from rollwright.record import EvaluationRow
from rollwright.record.gates import Outcome
from rollwright.viewer.figures import Label
from rollwright.viewer.figures_run import RunNumbers
from rollwright.viewer.report.claims import REQUIRED, Chain, Claim, ClaimKind, Condition, pass_at_one, quantity

__all__ = ["chain_of", "claims_of_one", "judged", "limits_on", "met"]

_OUTCOMES: tuple[Outcome, Outcome] = ("failed", "passed")


def claims_of_one(numbers: RunNumbers, others: Sequence[RunNumbers] = ()) -> tuple[Claim, ...]:
    """Every claim that is about a run by itself.

    Args:
        numbers: the run.
        others: runs given beside it; a throughput needs one as its baseline.
    """
    return (
        _observed(numbers),
        _asynchronous(numbers),
        _tools(numbers),
        _objective(numbers),
        _checkpoint(numbers),
        _preset(numbers),
        _throughput(numbers, others),
        _mixture(numbers),
        _hacking(numbers),
        _confirmed(numbers),
        _capability(numbers),
        _loss(numbers),
        _reproduced(numbers),
    )


def chain_of(numbers: RunNumbers) -> Chain:
    """What a claim about a run is bound to."""
    manifest = numbers.manifest
    sources = ", ".join(f"{one.id} {one.revision} ({one.license})" for one in manifest.data.prompt_sources)
    image = manifest.environment.image_digest
    containers = ", ".join(manifest.run.container_digests) or (f"none; sandbox {image}" if image else "none")
    kept = numbers.checkpoint
    at = kept.sha256 if kept is not None and kept.step == numbers.last_step else UNKNOWN
    return Chain(
        run=manifest.run.run_id,
        code_commit=manifest.run.code_commit or UNKNOWN,
        code_sha256=manifest.run.code_sha256 or UNKNOWN,
        config_sha256=manifest.run.config_sha256 or UNKNOWN,
        data_revisions=sources.replace(f"({UNKNOWN})", "(license not stated)") or "none",
        container_digests=containers,
        checkpoint_sha256=at,
    )


def judged(is_met: bool | None, because: str) -> tuple[Outcome, str]:  # noqa: FBT001 - the answer to be told
    """An outcome: None is not enough evidence."""
    return ("not enough evidence" if is_met is None else _OUTCOMES[is_met]), because


def met(because: str) -> tuple[Outcome, str]:
    """What is there."""
    return "passed", because


def limits_on(numbers: RunNumbers, *metrics: str) -> Condition | None:
    """What the gates of a run say of these metrics; None where it fixed no limit on any before it began.

    A limit holds where the run's gates passed each time that they were judged.
    """
    found = [
        record
        for record in numbers.gates
        if record.purpose in ("run", "ladder") and any(f" {metric}" in f" {record.what}" for metric in metrics)
    ]
    if not found:
        return None
    worst = next((r for r in found if r.verdict.outcome == "failed"), None)
    worst = worst or next((r for r in found if r.verdict.outcome != "passed"), found[-1])
    return Condition(
        requirement="",
        outcome=worst.verdict.outcome,
        because=f"{numbers.name}, step {worst.step}: {worst.what}: {worst.verdict.because}",
        label=_label(worst.label),
        gate=worst.verdict.gate,
    )


def _claim(
    kind: ClaimKind, numbers: RunNumbers, answers: Sequence[tuple[Outcome, str]], finding: str, label: Label = "C"
) -> Claim:
    return Claim(
        kind=kind,
        about=numbers.name,
        evidence="pinned source" if kind == "preset matches its documentation" else "measured",
        conditions=tuple(
            Condition(requirement=requirement, outcome=outcome, because=because, label=label)
            for requirement, (outcome, because) in zip(REQUIRED[kind], answers, strict=True)
        ),
        finding=finding,
        chains=(chain_of(numbers),),
    )


def _observed(numbers: RunNumbers) -> Claim:
    own = numbers.manifest.evaluation.protocol_sha256
    rows = [
        row
        for row in numbers.evaluations
        if row.metric == "success" and not row.labels and row.protocol_sha256 == own and row.low is not None
    ]
    if len(rows) < 2:
        missing = f"{len(rows)} evaluations of its protocol have an interval"
        return _claim("observed", numbers, [judged(None, missing)], "")
    supervised = {one.stage for one in numbers.manifest.algorithm if one.estimator == "supervised"}
    learned = min((step for step, stage in numbers.stages.items() if stage not in supervised), default=0)
    between = [f"{_said(row)}, where {numbers.stages[learned]} began" for row in rows[1:-1] if row.step == learned - 1]
    said = ", ".join([_said(rows[0]), *between, f"and {_said(rows[-1])}"])
    finding = (
        f"a held-out success of one attempt of {said}, on {rows[-1].num_tasks} tasks by protocol {rows[-1].protocol} "
        f"({own[:12]}), in the one run {numbers.name} of seed {numbers.manifest.seeds.get('run', UNKNOWN)}; another "
        "seed may give another number"
    )
    return _claim("observed", numbers, [met(f"steps {rows[0].step} and {rows[-1].step}")], finding)


def _said(row: EvaluationRow) -> str:
    value = pass_at_one(row)
    number = "an undefined value" if value is None else f"{value:.3f}"
    ends = "" if row.low is None or row.high is None else f" [{row.low:.3f}, {row.high:.3f}]"
    return f"{number}{ends} at step {row.step} ({row.interval_method} at {row.level:.4g})"


def _asynchronous(numbers: RunNumbers) -> Claim:
    lines = numbers.lines("stale/lag_hist", "lag")
    tokens = {int(line.labels["lag"]): sum(value or 0.0 for value in line.values) for line in lines}
    older, all_tokens = sum(n for lag, n in tokens.items() if lag > 0), sum(tokens.values())
    allowed = numbers.configuration.get("runtime.max_lag", UNKNOWN)
    answer = judged(
        older > 0 if tokens else None,
        f"{older:,.0f} of {all_tokens:,.0f} trained tokens; the configuration allows a lag of {allowed}, which alone "
        "says nothing",
    )
    share = older / all_tokens if all_tokens else 0.0
    finding = f"that {share:.1%} of the trained tokens of {numbers.name} were sampled by weights that were older"
    return _claim("trained asynchronously", numbers, [answer], finding)


def _tools(numbers: RunNumbers) -> Claim:
    calls = sum(tool.count for tool in numbers.tools if tool.purpose == "train" and tool.status == "ok")
    answer = judged(calls > 0, f"{calls:,} calls of trained purpose came back ok; that a tool is offered says nothing")
    finding = f"{calls:,} calls of tools that came back ok in the training episodes of {numbers.name}"
    return _claim("tools inside training", numbers, [answer], finding)


def _objective(numbers: RunNumbers) -> Claim:
    lines = [line for line in numbers.lines("policy/loss", "component") if line.labels["component"] != "nll"]
    trained = sorted({numbers.stages[step] for line in lines for step in line.steps if step in numbers.stages})
    named = [one for one in numbers.manifest.algorithm if one.stage in trained]
    said = ", ".join(f"{one.estimator} with denominator {one.loss_denominator} in {one.stage}" for one in named)
    answer = judged(
        bool(named) or None,
        f"updates of {', '.join(sorted({line.labels['component'] for line in lines})) or 'no objective'}",
    )
    return _claim("objective used", numbers, [answer], f"updates of {numbers.name} by {said}")


def _checkpoint(numbers: RunNumbers) -> Claim:
    chain = chain_of(numbers)
    links = (chain.code_commit, chain.config_sha256, chain.data_revisions, chain.checkpoint_sha256)
    answers = [judged(None if UNKNOWN in link else True, link) for link in links]
    finding = (
        f"checkpoint {chain.checkpoint_sha256[:12]} at step {numbers.last_step}, made by code {chain.code_commit} "
        f"({chain.code_sha256[:12]}) from configuration {chain.config_sha256[:12]}"
    )
    return _claim("checkpoint of this code", numbers, answers, finding)


def _preset(numbers: RunNumbers) -> Claim:
    said = {
        value.key.removeprefix("run.labels."): json.loads(value.value)
        for value in numbers.manifest.configuration
        if value.key.startswith("run.labels.")
    }
    origins = {value.key: value.origin for value in numbers.manifest.configuration}
    documented = sorted(key for key, text in said.items() if str(text)[:1] in "DC")
    unknown = sorted(key for key, text in said.items() if str(text)[:1] == "U")
    changed = [key for key in documented if not origins.get(key, "").startswith("preset")]
    first = judged(
        not changed if documented else None,
        f"{', '.join(changed)} was set otherwise than by the preset" if changed else f"{len(documented)} such keys",
    )
    second = met(", ".join(unknown) or "no key is labeled U")
    finding = (
        f"the documented values of {', '.join(documented)}; substituted for unknown: {', '.join(unknown) or 'none'}"
    )
    return _claim("preset matches its documentation", numbers, [first, second], finding)


def _throughput(numbers: RunNumbers, others: Sequence[RunNumbers]) -> Claim:
    machine = numbers.manifest.machine
    line = numbers.line("sys/tokens_s")
    rates = [] if line is None else [value for value in line.values if value is not None]
    lengths = numbers.lines("len/response", "quantile")
    quantiles = ", ".join(
        f"{one.labels['quantile']}: {one.values[-1]:g}" for one in lengths if one.values and one.values[-1] is not None
    )
    baseline = next((one for one in others if one.manifest.machine.cpu_model == machine.cpu_model), None)
    hardware = (
        f"{machine.cpu_model}, {machine.num_cores} cores, accelerators {', '.join(machine.accelerators) or 'none'}"
    )
    threads = ", ".join(f"{role} {count}" for role, count in machine.threads.items())
    answers = [
        judged(bool(machine.cpu_model and rates) or None, hardware),
        judged(None if baseline is None else True, "none was given" if baseline is None else baseline.name),
        judged(bool(quantiles) or None, f"quantiles of action tokens in the last step: {quantiles or 'none'}"),
        judged(bool(threads) or None, f"threads: {threads}; ranks {machine.num_ranks}"),
    ]
    rate = f"{median(rates):,.0f}" if rates else "no"
    finding = (
        f"a median of {rate} action tokens a second of waiting in {numbers.name}, on {hardware}; baseline "
        f"{baseline.name if baseline else 'none'}; lengths {quantiles}; threads {threads}"
    )
    return _claim("throughput", numbers, answers, finding)


def _mixture(numbers: RunNumbers) -> Claim:
    sources = {slot.source for slot in numbers.slots}
    limits = limits_on(numbers, "success (slice", "reward (slice", "success (source")
    first = (
        judged(None, "no gate on a domain was declared before the run")
        if limits is None
        else (limits.outcome, limits.because)
    )
    trained = {s: sum(x.count for x in numbers.slots if (x.source, x.state) == (s, "trained")) for s in sources}
    intended = _intended(numbers)
    if len(sources) < 2 or set(intended) != sources:
        second = judged(None, "one source is no mixture" if len(sources) < 2 else "the intended weights are unknown")
    else:
        total, due = sum(trained.values()), sum(intended.values())
        worst = max(abs(trained[s] / total - intended[s] / due) for s in sources) if total else 1.0
        second = judged(worst <= 0.02, f"largest difference of shares {worst:.3f}; at most 0.02")
    return _claim("mixture works", numbers, [first, second], f"its mixture as intended in {numbers.name}", label="I")


def _intended(numbers: RunNumbers) -> dict[str, float]:
    values = numbers.configuration
    names = {
        key: json.loads(text) for key, text in values.items() if key.startswith("tasks.") and key.endswith(".name")
    }
    weights = {key: values.get(f"{key.removesuffix('.name')}.weight") for key in names}
    return {str(names[key]): float(weight) for key, weight in weights.items() if weight is not None}


def _hacking(numbers: RunNumbers) -> Claim:
    gold = [row for row in numbers.evaluations if row.metric == "gold_disagreement" and "slice" not in row.labels]
    if gold and gold[-1].value is not None:
        last = gold[-1]
        said = (
            f"the gold verifier {last.labels.get('verifier', UNKNOWN)} differs on {last.value:.3f} of the attempts of "
            f"{last.num_tasks} tasks at step {last.step}; what both accept wrongly is unknown"
        )
    else:
        said = "no gold verifier was asked; what no detector finds is unknown in any case"
    return _claim("no reward hacking", numbers, [judged(None, said)], "")


def _confirmed(numbers: RunNumbers) -> Claim:
    """What an audit found, by its detector, on how many: the only thing that can be said of hacks."""
    found: list[str] = []
    lines = [line for line in numbers.metrics if line.name == "verifier/hack_confirmed" and line.values]
    for line in lines:
        upper = [
            one.values[-1] for one in lines if "bound" in one.labels and _unbounded(one.labels) == dict(line.labels)
        ]
        share, bound = line.values[-1], upper[-1] if upper else None
        if "bound" not in line.labels and share is not None and bound is not None:
            named = ", ".join(f"{name} {text}" for name, text in sorted(line.labels.items()))
            looked = f"{line.num_items[-1]:,} audited ({named})"
            found.append(f"a share of {share:.3f}, at most {bound:.3f} at 0.95, of confirmed hacks among {looked}")
    finding = f"{' and '.join(found)} in {numbers.name}; what the detector cannot find is not counted"
    return _claim(
        "confirmed hacks", numbers, [judged(bool(found) or None, ", ".join(found) or "none was kept")], finding
    )


def _unbounded(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in labels.items() if name != "bound"}


def _capability(numbers: RunNumbers) -> Claim:
    own = numbers.manifest.evaluation.protocol_sha256
    rows = [
        r
        for r in numbers.evaluations
        if r.metric == "pass_at_k" and r.protocol_sha256 == own and set(r.labels) == {"k"}
    ]
    steps, largest = sorted({row.step for row in rows}), max((int(row.labels["k"]) for row in rows), default=0)
    named = ", ".join(sorted({quantity(row) for row in rows})) or "no pass@k"
    answers = [
        judged(True if len(steps) > 1 and largest > 1 else None, f"{named} at {len(steps)} evaluated steps"),
        judged(None, "no run folder shows that its base was elicited as well as it can be; the matter is contested"),
        judged(True if len(steps) > 1 else None, f"one protocol, {own[:12]}"),
    ]
    return _claim("new capability", numbers, answers, "")


def _loss(numbers: RunNumbers) -> Claim:
    passed = [r for r in numbers.gates if r.purpose == "ladder" and "fixture" in f"{r.verdict.gate} {r.what}".lower()]
    said = "no run folder holds it; `rollwright fixtures` computes it for this version of the code"
    first = (passed[-1].verdict.outcome, passed[-1].verdict.because) if passed else judged(None, said)
    return _claim("loss is implemented", numbers, [first, judged(None, said), judged(None, said)], "")


def _reproduced(numbers: RunNumbers) -> Claim:
    said = (
        f"the folder holds this run alone; it is recipe {_recipe(numbers)} at code {numbers.manifest.run.code_commit}"
    )
    return _claim("model reproduced", numbers, [judged(None, said)], "")


def _recipe(numbers: RunNumbers) -> str:
    return str(json.loads(numbers.configuration.get("run.name", json.dumps(UNKNOWN))))


def _label(text: str) -> Label:
    match text:
        case "D" | "C" | "I":
            return text
        case _:
            return "U"
