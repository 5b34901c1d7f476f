"""Why an advantage is what it is: the group's rewards, the baseline and the formula, as far as a person can follow it.

What an estimator makes of more than a group's rewards (values, teachers, states) is named, not made again here.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from rollwright.evidence.why.answers import Answer, Fact
from rollwright.evidence.why.asking import Asked

__all__ = ["credit_answer"]

_CLOSE = 1e-5
_EQUAL = 1e-8
"""Rewards nearer than this, relative to the largest, are one level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    trajectory_id: str
    slot: int
    reward: float | None
    is_truncated: bool
    counted: float | None
    """What the comparison takes, after the truncation rule; None: it is outside of it."""


def credit_answer(asked: Asked, trajectory: Mapping[str, object], step: int, stored: float | None) -> Answer:
    """How a row's advantage came to be.

    Args:
        asked: the run.
        trajectory: its row.
        step: that trained it.
        stored: the advantage in the receipt; None where the retention dropped it.
    """
    name = str(trajectory["trajectory_id"])
    if trajectory["purpose"] == "demonstration":
        text = "advantage = 1: a demonstration is imitated, not compared with other attempts"
        return Answer(title="credit", facts=(Fact(name="credit", value="imitation", text=text),))
    members = _members(asked, trajectory, step)
    estimator = _setting(asked, "objective.credit.kind", "unknown")
    facts = [
        Fact(name="credit", value=estimator, text=f"the estimator is {estimator}"),
        Fact(
            name="group_rewards",
            value=", ".join(_shown(m.counted) for m in members),
            text="rewards of its group, by slot: " + ", ".join(_of_member(m) for m in members),
            source=f"SELECT string_agg(coalesce(reward::TEXT, unscored_reason), ', ' ORDER BY slots.slot) FROM slots "
            f"JOIN trajectories USING (trajectory_id) WHERE slots.group_id = {trajectory['group_id']} "
            f"AND state = 'trained' AND step = {step}",
        ),
    ]
    facts += _truncation(asked, members)
    own = next((m.counted for m in members if m.trajectory_id == name), None)
    facts += _arithmetic(asked, estimator, own, [m.counted for m in members if m.counted is not None], stored)
    return Answer(title="credit: how the rewards became its advantage", facts=tuple(facts))


def _members(asked: Asked, trajectory: Mapping[str, object], step: int) -> list[_Member]:
    rule = _setting(asked, "rollout.truncation", "negative")
    rows = asked.rows(
        f"""SELECT t.trajectory_id, t.slot, t.reward, t.truncated FROM slots s JOIN trajectories t USING (trajectory_id)
        WHERE s.group_id = {trajectory["group_id"]} AND s.state = 'trained' AND s.step = {step} ORDER BY t.slot"""
    )
    return [
        _Member(
            trajectory_id=str(row["trajectory_id"]),
            slot=cast("int", row["slot"]),
            reward=cast("float | None", row["reward"]),
            is_truncated=bool(row["truncated"]),
            counted=_counted(cast("float | None", row["reward"]), rule, is_truncated=bool(row["truncated"])),
        )
        for row in rows
    ]


def _counted(reward: float | None, rule: str, *, is_truncated: bool) -> float | None:
    if reward is None or not is_truncated:
        return reward
    match rule:
        case "negative" | "resume":
            return 0.0
        case "exclude":
            return None
        case _:
            return reward


def _truncation(asked: Asked, members: Sequence[_Member]) -> list[Fact]:
    cut = [m for m in members if m.is_truncated]
    if not cut:
        return []
    rule = _setting(asked, "rollout.truncation", "negative")
    words = {
        "negative": "counts with the reward 0",
        "resume": "counts with the reward 0 once it is not resumed any more",
        "exclude": "is left out of the group",
        "mask": "stays in the group's mean and is not trained",
        "soft_penalty": "is paid less, by how long it was",
    }
    slots = ", ".join(str(m.slot) for m in cut)
    return [
        Fact(
            name="truncation",
            value=rule,
            text=f"slot {slots} was cut by a limit; by the rule {rule} such an episode {words.get(rule, 'is special')}",
        )
    ]


def _arithmetic(
    asked: Asked, estimator: str, own: float | None, rewards: Sequence[float], stored: float | None
) -> list[Fact]:
    """The formula with its numbers, and whether the receipt agrees."""
    if own is None or not rewards:
        text = "it has no reward that the comparison takes, so its advantage is 0"
        return [Fact(name="advantage_formula", value=0.0, text=text)]
    mean = float(np.mean(rewards))
    facts = [
        Fact(
            name="baseline",
            value=mean,
            text=f"mean = ({' + '.join(_shown(r) for r in rewards)}) / {len(rewards)} = {_shown(mean)}",
        )
    ]
    if _is_plain(asked):
        facts += _formula(asked, estimator, own, rewards, mean)
    made = next((f.value for f in facts if f.name == "advantage_formula"), None)
    if made is None:
        text = (
            f"{estimator} makes more of it than these rewards; `rollwright check --depth recipe` makes it again and "
            "compares"
        )
        facts.append(Fact(name="formula", value=None, text=text))
    elif stored is not None and not math.isclose(float(made), stored, rel_tol=_CLOSE, abs_tol=_CLOSE):
        text = f"the receipt says {_shown(stored)}, which the formula does not give: run `rollwright check`"
        facts.append(Fact(name="disagreement", value=stored, text=text))
    return facts


def _formula(asked: Asked, estimator: str, own: float, rewards: Sequence[float], mean: float) -> list[Fact]:
    size = max(1.0, *(abs(r) for r in rewards))
    if len(rewards) < 2 or max(rewards) - min(rewards) <= _EQUAL * size:
        why = "it is alone in its group" if len(rewards) < 2 else "all of its group earned the same"
        return [Fact(name="advantage_formula", value=0.0, text=f"advantage = 0: {why}")]
    distance = own - mean
    centered = f"{_shown(own)} − {_shown(mean)}"
    match estimator:
        case "group_centered":
            text = f"advantage = {centered} = {_shown(distance)}"
            return [Fact(name="advantage_formula", value=distance, text=text)]
        case "leave_one_out":
            count = len(rewards)
            value = distance * count / (count - 1)
            others = (sum(rewards) - own) / (count - 1)
            text = f"advantage = {_shown(own)} − mean of the others {_shown(others)} = {_shown(value)}"
            return [Fact(name="advantage_formula", value=value, text=text)]
        case "group_standardized":
            ddof = int(_setting(asked, "objective.credit.ddof", "1"))
            eps = float(_setting(asked, "objective.credit.eps", "1e-6"))
            spread = float(np.std(rewards, ddof=ddof))
            value = distance / (spread + eps)
            text = f"advantage = ({centered}) / ({_shown(spread)} + {eps:g}) = {_shown(value)}"
            return [
                Fact(name="spread", value=spread, text=f"standard deviation (ddof {ddof}) = {_shown(spread)}"),
                Fact(name="advantage_formula", value=value, text=text),
            ]
        case _:
            return []


def _is_plain(asked: Asked) -> bool:
    """True where nothing stands between the group's rewards and the estimator but the truncation rule."""
    keys = asked.configuration
    compared = [json.loads(v) for k, v in keys.items() if k == "objective.comparison" or k == "objective.comparison.0"]
    is_dispatch = all(one in ("dispatch", ["dispatch"]) for one in compared)
    is_in_loss = (
        _setting(asked, "objective.kl_place", "loss") == "loss"
        or float(_setting(asked, "objective.kl_coefficient", "0")) == 0
    )
    is_soft = _setting(asked, "rollout.truncation", "negative") == "soft_penalty"
    by_source = _setting(asked, "objective.normalize_by_source", "False") == "True"
    return is_dispatch and is_in_loss and not is_soft and not by_source


def _setting(asked: Asked, key: str, default: str) -> str:
    value = asked.configuration.get(key)
    return default if value is None else str(json.loads(value))


def _of_member(member: _Member) -> str:
    if member.reward is None:
        return f"{member.slot}: unscored"
    changed = "" if member.counted == member.reward else f" (counts as {_shown(member.counted)})"
    return f"{member.slot}: {_shown(member.reward)}{changed}"


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.9g}"
