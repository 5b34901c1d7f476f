"""Rewards against their parts, and the parts against the verdicts that gave them."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import cast

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checking.questions import questions

__all__ = ["check_rewards"]

_CLOSE = 1e-9


def check_rewards(run: LoadedRun) -> Iterator[Finding]:
    """Every reward is the composition of its parts, every part what a verdict said, every verdict of the run's rule."""
    for question in questions("rewards"):
        yield from run.found("rewards", question)
    if "verdicts" not in run.missing:
        for question in questions("rewards_of_verdicts"):
            yield from run.found("rewards", question)
    yield from _revisions(run)
    yield from _weights(run)
    yield from _sums(run)


def _revisions(run: LoadedRun) -> Iterator[Finding]:
    """Verdicts that were trained on are of the verifiers that the manifest names, and rewards of its rule."""
    revisions = {(name, rev) for m in run.manifests for name, rev in m.reward.verifier_revisions.items()}
    known = {name for name, _ in revisions}
    for trajectory_id, verifier, revision in run.rows(
        "SELECT trajectory_id, verifier, verifier_revision FROM verdicts WHERE scoring = 0 AND scope <> 'turn'"
    ):
        if verifier in known and (verifier, revision) not in revisions:
            due = ", ".join(sorted(rev for name, rev in revisions if name == verifier))
            yield Finding(
                place=f"verdicts {trajectory_id} {verifier}",
                text=f"verifier_revision is {revision}",
                expected=f"{due}, as the manifest says",
                concern="rewards",
            )
    rules = {m.reward.rule for m in run.manifests}
    for trajectory_id, rule in run.rows(
        "SELECT trajectory_id, reward_rule FROM trajectories WHERE reward IS NOT NULL AND reward_rule <> 'none'"
    ):
        if rule not in rules:
            yield Finding(
                place=f"trajectories {trajectory_id}",
                text=f"reward_rule is {rule}",
                expected=f"{', '.join(sorted(rules))}, as the manifest says",
                concern="rewards",
            )


def _weights(run: LoadedRun) -> Iterator[Finding]:
    """Weights of parts are those of the manifest."""
    weights: dict[str, set[float]] = {}
    for manifest in run.manifests:
        for name, weight in manifest.reward.component_weights.items():
            weights.setdefault(name, set()).add(float(weight))
    for trajectory_id, name, weight in run.rows(
        """SELECT trajectory_id, part.name, part.weight
        FROM (SELECT trajectory_id, unnest(reward_components) AS part FROM trajectories)"""
    ):
        due = weights.get(str(name))
        if due is not None and not any(_is_close(float(cast("float", weight)), one) for one in due):
            yield Finding(
                place=f"trajectories {trajectory_id}",
                text=f"part {name} of its reward has weight {weight}",
                expected=f"{', '.join(map(str, sorted(due)))}, as the manifest says",
                concern="rewards",
            )


def _sums(run: LoadedRun) -> Iterator[Finding]:
    """A reward is Σ weight · value over outcome and shaping parts, times the gates."""
    roles = _roles(run)
    if roles is None:
        return
    for trajectory_id, reward, parts in run.rows(
        """SELECT trajectory_id, reward, reward_components FROM trajectories
        WHERE reward IS NOT NULL AND len(reward_components) > 0"""
    ):
        total, gate, shown = 0.0, 1.0, list[str]()
        for part in cast("list[Mapping[str, object]]", parts):
            name, value, weight = (
                str(part["name"]),
                float(cast("float", part["value"])),
                float(cast("float", part["weight"])),
            )
            if roles.get(name) == "gate":
                gate *= value
                shown.append(f"× {value:g} ({name})")
            elif weight != 0:
                total += weight * value
                shown.append(f"{weight:g} · {value:g} ({name})")
        given = float(cast("float", reward))
        if not _is_close(given, total * gate):
            yield Finding(
                place=f"trajectories {trajectory_id}",
                text=f"reward is {given:g}",
                expected=f"{total * gate:g}: {' + '.join(shown) or 'no part counts'}",
                concern="rewards",
            )


def _roles(run: LoadedRun) -> Mapping[str, str] | None:
    """Verifier to its role in the reward; None where the configuration does not tell which parts count."""
    found: dict[str, str] = {}
    for value in run.folder.manifest.configuration:
        head, _, tail = value.key.rpartition(".")
        if head.startswith("verifier.parts.") and tail in ("kind", "role"):
            found[f"{head.rpartition('.')[2]} {tail}"] = str(json.loads(value.value))
    kinds = {key.partition(" ")[0]: kind for key, kind in found.items() if key.endswith(" kind")}
    if "world" in kinds.values() or not run.rows("SELECT 1 FROM trajectories WHERE reward IS NOT NULL LIMIT 1"):
        return None
    return {kind: found.get(f"{number} role", "outcome") for number, kind in kinds.items()}


def _is_close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=_CLOSE, abs_tol=_CLOSE)
