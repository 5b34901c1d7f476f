"""Why one token weighed what it weighed: the whole chain, from who sampled it to what it moved."""

import json
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from rollwright.evidence.why.answers import Answer, Fact
from rollwright.evidence.why.asking import Asked, Row, TokenPlace, text_of
from rollwright.evidence.why.credit import credit_answer
from rollwright.evidence.why.rewards import reward_answer
from rollwright.evidence.why.untrained import untrained_facts
from rollwright.evidence.why.words import flag_words

__all__ = ["token_answer"]

_AROUND = 12
"""Tokens shown before and behind."""


def token_answer(asked: Asked, place: TokenPlace, step: int | None = None) -> Answer:
    """The chain of one token.

    Args:
        asked: the run.
        place: of the token.
        step: only the updates of this step; None: all.

    Raises:
        EvidenceError: for a place that the run does not have, saying what it has.
    """
    trajectory = asked.trajectory(place.trajectory_id)
    segment = asked.segment(place)
    receipts = _receipts(asked, place, step)
    facts = [*_identity(asked, place, segment), *_origin(place, segment)]
    parts: list[Answer] = [_update(asked, place, segment, receipt) for receipt in receipts]
    if not any(_at(receipt["token_weight"], place.index) for receipt in receipts):
        facts += untrained_facts(asked, place, trajectory, segment, receipts)
    credited = next((r for r in receipts if r["advantage"] is not None or asked.retention == "sums"), None)
    if credited is not None and trajectory["unscored_reason"] in (None, "demonstration"):
        advantage = _at(credited["advantage"], place.index)
        parts.append(credit_answer(asked, trajectory, cast("int", credited["step"]), advantage))
    parts.append(reward_answer(asked, trajectory))
    return Answer(title=f"token {place}", facts=tuple(facts), parts=tuple(parts))


def _receipts(asked: Asked, place: TokenPlace, step: int | None) -> list[Row]:
    of_step = "" if step is None else f"AND step = {asked.step(step)}"
    return asked.rows(
        f"""SELECT * REPLACE (expand(advantage) AS advantage, expand(token_weight) AS token_weight,
        expand(correction) AS correction, expand(flags) AS flags) FROM receipts
        WHERE trajectory_id = {text_of(place.trajectory_id)} AND segment = {place.segment} {of_step}
        ORDER BY update, advantage IS NULL, component"""
    )


def _identity(asked: Asked, place: TokenPlace, segment: Row) -> Iterator[Fact]:
    ids = cast("Sequence[int]", segment["token_ids"])
    token_id = ids[place.index]
    name = text_of(place.trajectory_id)
    yield Fact(
        name="token_id",
        value=token_id,
        text=f"{json.dumps(asked.decode([token_id]), ensure_ascii=False)} (id {token_id})",
        source=f"SELECT token_ids[{place.index + 1}] FROM segments WHERE trajectory_id = {name} "
        f"AND segment = {place.segment}",
    )
    context = asked.one(
        f"SELECT input_token_ids FROM contexts WHERE trajectory_id = {name} AND segment = {place.segment}"
    )
    behind = [*(cast("Sequence[int]", context["input_token_ids"]) if context else ()), *ids[: place.index]]
    before = asked.decode(behind[-_AROUND:]) if behind else ""
    after = asked.decode(list(ids[place.index + 1 : place.index + 1 + _AROUND]))
    shown = f"{'…' if len(behind) > _AROUND else ''}{before}⟦{asked.decode([token_id])}⟧{after}"
    yield Fact(name="context", value=shown, text=f"in its context: {json.dumps(shown, ensure_ascii=False)}")
    yield Fact(
        name="position",
        value=cast("int", segment["start"]) + place.index,
        text=f"token {place.index} of segment {place.segment}, position {cast('int', segment['start']) + place.index} "
        f"of context {segment['context']}, turn {segment['turn']}",
        source=f"SELECT start + {place.index} FROM segments WHERE trajectory_id = {name} AND segment = {place.segment}",
    )


def _origin(place: TokenPlace, segment: Row) -> Iterator[Fact]:
    where = f"FROM segments WHERE trajectory_id = {text_of(place.trajectory_id)} AND segment = {place.segment}"
    origin = str(segment["origin"])
    yield Fact(name="origin", value=origin, text=f"written by: {origin}", source=f"SELECT origin {where}")
    if segment["policy_version"] is None:
        return
    sampling = cast("Row", segment["sampling"])
    temperature = float(cast("float", sampling["temperature"]))
    yield Fact(
        name="policy_version",
        value=cast("int", segment["policy_version"]),
        text=f"sampled by {segment['policy']} version {segment['policy_version']} "
        f"(the weights after step {segment['policy_version']})",
        source=f"SELECT policy_version {where}",
    )
    yield Fact(
        name="temperature",
        value=temperature,
        text=f"at temperature {temperature:g}",
        source=f"SELECT sampling.temperature {where}",
    )
    behavior = float(cast("Sequence[float]", segment["behavior_logprobs"])[place.index])
    yield Fact(
        name="behavior_logprob",
        value=behavior,
        text=f"behavior log-probability {behavior:.9g}: it was drawn with probability {np.exp(behavior):.6g}",
        source=f"SELECT behavior_logprobs[{place.index + 1}] {where}",
    )


def _update(asked: Asked, place: TokenPlace, segment: Row, receipt: Row) -> Answer:
    """What one update did with the token, for one component of the loss."""
    title = f"update {receipt['update']} (step {receipt['step']}), component {receipt['component']}"
    where = (
        f"FROM receipts WHERE trajectory_id = {text_of(place.trajectory_id)} AND segment = {place.segment} "
        f"AND update = {receipt['update']} AND component = {text_of(str(receipt['component']))} "
        f"AND model = {text_of(str(receipt['model']))}"
    )
    if asked.retention == "sums":
        value = cast("float", receipt["influence"])
        text = f"influence of its segment {value:.9g}; evidence.receipts = sums dropped what each token of it weighed"
        return Answer(
            title=title, facts=(Fact(name="influence", value=value, text=text, source=f"SELECT influence {where}"),)
        )
    facts = [
        *_weight(asked, place, receipt, where),
        *_scores(place, segment, receipt, where),
        *_touched(place, receipt, where),
        *_moved(asked, place, receipt),
    ]
    return Answer(title=title, facts=tuple(facts))


def _weight(asked: Asked, place: TokenPlace, receipt: Row, where: str) -> Iterator[Fact]:
    weight = _at(receipt["token_weight"], place.index) or 0.0
    source = f"SELECT expand(token_weight)[{place.index + 1}] {where}"
    labels = (
        f"update = {receipt['update']} AND labels['model'] = {text_of(str(receipt['model']))} "
        f"AND labels['component'] = {text_of(str(receipt['component']))}"
    )
    denominator = _metric(asked, "denominator", labels)
    total = _metric(asked, "weight_sum", labels)
    yield Fact(name="weight", value=weight, text=_weight_text(weight, denominator), source=source)
    if denominator is not None:
        yield Fact(
            name="denominator",
            value=denominator,
            text=f"the denominator of the update is {denominator:.9g} ({_rule(asked, receipt)})",
            source=f"SELECT value FROM metrics WHERE name = 'denominator' AND {labels}",
        )
    if total is not None:
        yield Fact(
            name="weight_sum",
            value=total,
            text=f"weights of the update sum to {total:.9g}",
            source=f"SELECT value FROM metrics WHERE name = 'weight_sum' AND {labels}",
        )


def _weight_text(weight: float, denominator: float | None) -> str:
    if weight == 0 or not denominator:
        return f"weight = {weight:.9g}"
    if abs(weight * denominator - 1) < 1e-9:
        return f"weight = 1 / {denominator:.9g} = {weight:.9g}"
    share = 1 / (weight * denominator)
    if abs(share - round(share)) < 1e-6 and round(share) > 0:
        return f"weight = 1 / ({denominator:.9g} · {round(share)}) = {weight:.9g}: its row has {round(share)} tokens"
    return f"weight = {weight:.9g}"


def _rule(asked: Asked, receipt: Row) -> str:
    stage = asked.one(f"SELECT stage FROM trajectories WHERE trajectory_id = {text_of(str(receipt['trajectory_id']))}")
    rules = {section.stage: section.loss_denominator for section in asked.manifest.algorithm}
    return f"rule {rules.get(str(stage['stage']) if stage else '', 'unknown')}"


def _scores(place: TokenPlace, segment: Row, receipt: Row, where: str) -> Iterator[Fact]:
    at = place.index
    held: dict[str, float] = {}
    for name in ("proximal", "current", "reference", "teacher"):
        value = _at(receipt[f"{name}_logprobs"], at)
        if value is None:
            continue
        held[name] = value
        yield Fact(
            name=f"{name}_logprob",
            value=value,
            text=f"{name} log-probability {value:.9g}",
            source=f"SELECT {name}_logprobs[{at + 1}] {where}",
        )
    if receipt["advantage"] is None:
        return
    proximal, behavior = held.get("proximal"), _at(segment["behavior_logprobs"], at)
    if proximal is not None:
        current = held.get("current", proximal)
        ratio = float(np.exp(current - proximal))
        said = "1: current and proximal are of one pass" if "current" not in held else f"{ratio:.9g}"
        yield Fact(name="update_ratio", value=ratio, text=f"update ratio = exp(current − proximal) = {said}")
        if behavior is not None:
            ratio = float(np.exp(proximal - behavior))
            yield Fact(
                name="staleness_ratio",
                value=ratio,
                text=f"staleness ratio = exp(proximal − behavior) = exp({proximal:.6g} − {behavior:.6g}) = {ratio:.9g}",
            )
    yield Fact(
        name="lag",
        value=cast("int", receipt["lag"]),
        text=f"lag {receipt['lag']}: step − 1 − policy version",
        source=f"SELECT lag {where}",
    )


def _touched(place: TokenPlace, receipt: Row, where: str) -> Iterator[Fact]:
    if receipt["flags"] is not None:
        flags = int(_at(receipt["flags"], place.index) or 0)
        yield Fact(
            name="flags",
            value=flags,
            text="; ".join(flag_words(flags)),
            source=f"SELECT expand(flags)[{place.index + 1}] {where}",
        )
    correction = _at(receipt["correction"], place.index)
    if correction is not None:
        yield Fact(
            name="correction",
            value=correction,
            text=f"correction {correction:.9g}",
            source=f"SELECT expand(correction)[{place.index + 1}] {where}",
        )


def _moved(asked: Asked, place: TokenPlace, receipt: Row) -> Iterator[Fact]:
    advantage = _at(receipt["advantage"], place.index)
    if advantage is None:
        text = f"a regularizer: it has no advantage; its loss over the segment is {receipt['loss']:.9g}"
        yield Fact(name="loss", value=cast("float", receipt["loss"]), text=text)
        return
    where = (
        f"FROM receipts WHERE trajectory_id = {text_of(place.trajectory_id)} AND segment = {place.segment} "
        f"AND update = {receipt['update']} AND component = {text_of(str(receipt['component']))}"
    )
    yield Fact(
        name="advantage",
        value=advantage,
        text=f"advantage {advantage:.9g}",
        source=f"SELECT expand(advantage)[{place.index + 1}] {where}",
    )
    weight = _at(receipt["token_weight"], place.index) or 0.0
    given = _at(receipt["correction"], place.index)
    correction = 1.0 if given is None else given
    moved = abs(weight * correction * advantage)
    factor = "" if correction == 1 else f" · {correction:.9g}"
    yield Fact(
        name="contribution",
        value=moved,
        text=f"it moved |weight · correction · advantage| = {weight:.9g}{factor} · |{advantage:.9g}| = {moved:.9g}",
    )
    source = (
        f"SELECT sum(influence) FROM receipts WHERE update = {receipt['update']} "
        f"AND component = {text_of(str(receipt['component']))} AND model = {text_of(str(receipt['model']))}"
    )
    row = asked.one(source)
    total = 0.0 if row is None else float(cast("float", next(iter(row.values())) or 0.0))
    yield Fact(name="update_influence", value=total, text=f"the whole update moved {total:.9g}", source=source)
    if total:
        yield Fact(name="share", value=moved / total, text=f"so its share is {moved / total:.4%}")


def _metric(asked: Asked, name: str, labels: str) -> float | None:
    row = asked.one(f"SELECT value FROM metrics WHERE name = {text_of(name)} AND {labels}")
    return None if row is None or row["value"] is None else float(cast("float", row["value"]))


def _at(values: object, index: int) -> float | None:
    """One value of a list; None where there is no list."""
    if values is None:
        return None
    listed = cast("Sequence[float]", values)
    return float(listed[index]) if index < len(listed) else None
