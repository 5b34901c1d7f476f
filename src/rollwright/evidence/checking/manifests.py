"""Manifests against themselves: each section against the configuration of the same manifest, and commits in time."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import TRAINED_ORIGINS, LoadedRun
from rollwright.evidence.manifest import AlgorithmSection, Manifest

__all__ = ["check_manifests"]

_CLOCK_SET_BACK = timedelta(minutes=5)
"""A machine's clock that is put right may step back; not by more."""
_OF_STAGES: Mapping[str, str] = {
    "estimator": "objective.kind",
    "loss_denominator": "objective.denominator",
    "reward_scaling": "objective.reward_scaling",
    "clip_low": "objective.surrogate.clip_low",
    "clip_high": "objective.surrogate.clip_high",
    "max_policy_lag": "runtime.max_lag",
}
_OF_LIMITS: Mapping[str, str] = {
    "turns": "rollout.max_turns",
    "turn_tokens": "rollout.max_turn_tokens",
    "episode_tokens": "rollout.max_episode_tokens",
    "wall_clock_s": "rollout.wall_clock_s",
    "calls": "rollout.max_calls",
    "call_s": "rollout.call_s",
}


def check_manifests(run: LoadedRun) -> Iterator[Finding]:
    """What a section says is what its configuration says, the list of trained tokens holds no one else's, time runs."""
    for path, manifest in zip(_names(run.folder.path), run.manifests, strict=False):
        kept = {one.key: json.loads(one.value) for one in manifest.configuration}
        yield from _sections(path, manifest, kept)
        yield from _eligible(path, manifest)
    yield from _times(run)


def _names(root: Path) -> list[str]:
    later = sorted(path.name for path in (root / "manifests").glob("*.json"))
    return ["manifest.json", *(f"manifests/{name}" for name in later)]


def _sections(path: str, manifest: Manifest, kept: Mapping[str, object]) -> Iterator[Finding]:
    kinds = {kept.get(f"stages.{number}.name"): kept.get(f"stages.{number}.kind") for number in range(len(kept))}
    for number, section in enumerate(manifest.algorithm):
        if kinds.get(section.stage) == "rl":
            due = {name: kept.get(key) for name, key in _OF_STAGES.items()}
            yield from _compared(path, f"algorithm.{number}", _said(section), due)
    timeouts = {name: kept.get(key) for name, key in _OF_LIMITS.items()}
    yield from _compared(path, "environment.timeout_policy", manifest.environment.timeout_policy, timeouts)
    seeds = {"run": kept.get("run.seed"), "evaluation": kept.get("evaluation.seed")}
    yield from _compared(path, "seeds", manifest.seeds, seeds)
    others = {
        "reward.truncation_policy": (manifest.reward.truncation_policy, "rollout.truncation"),
        "evaluation.protocol": (manifest.evaluation.protocol, "evaluation.name"),
        "evaluation.sample_count": (manifest.evaluation.sample_count, "evaluation.samples"),
        "model.precision_train": (manifest.model.precision_train, "learner.dtype"),
        "model.precision_rollout": (manifest.model.precision_rollout, "engine.dtype"),
        "receipts": (manifest.receipts, "evidence.receipts"),
    }
    for name, (said, key) in others.items():
        yield from _compared(path, "", {name: said}, {name: kept.get(key)})
    yield from _compared(path, "reward.component_weights", manifest.reward.component_weights, _weights(kept))


def _said(section: AlgorithmSection) -> Mapping[str, object]:
    return {
        "estimator": section.estimator,
        "loss_denominator": section.loss_denominator,
        "reward_scaling": section.reward_scaling,
        "clip_low": section.clip_low,
        "clip_high": section.clip_high,
        "max_policy_lag": section.max_policy_lag,
    }


def _weights(kept: Mapping[str, object]) -> Mapping[str, object]:
    """Of verifiers that the configuration names by kind, each once."""
    kinds = [str(kept[key]) for key in kept if key.startswith("verifier.parts.") and key.endswith(".kind")]
    if "world" in kinds or len(set(kinds)) < len(kinds):
        return {}
    numbers = [key.split(".")[2] for key in kept if key.startswith("verifier.parts.") and key.endswith(".kind")]
    return {kind: kept.get(f"verifier.parts.{n}.weight") for kind, n in zip(kinds, numbers, strict=True)}


def _compared(path: str, section: str, said: Mapping[str, object], due: Mapping[str, object]) -> Iterator[Finding]:
    """Where both say something, they say the same; a band that a stage does not have says nothing."""
    for name in sorted(said.keys() & due.keys()):
        left, right = said[name], due[name]
        if left is not None and right is not None and left != right:
            yield Finding(
                place=f"{path} {section}{'.' if section else ''}{name}",
                text=f"it is {left}",
                expected=f"{right}, as the configuration of the same manifest says",
            )


def _eligible(path: str, manifest: Manifest) -> Iterator[Finding]:
    for row in manifest.eligible:
        if row.origin not in TRAINED_ORIGINS or (row.origin == "demonstration") != (row.policy is None):
            by = "nobody" if row.policy is None else row.policy
            yield Finding(
                place=f"{path} eligible",
                text=f"it lets {row.component} of {row.model} train tokens of origin {row.origin} by {by}",
                expected="tokens that a policy wrote, or a demonstration",
            )


def _times(run: LoadedRun) -> Iterator[Finding]:
    """A commit is written after the one before it, and the first after the run began."""
    before, at = "manifest.json", run.manifests[0].run.created_at
    for commit in run.folder.commits:
        name = f"commits/{commit.number:06d}-{commit.kind}.json"
        if commit.committed_at < at - _CLOCK_SET_BACK:
            yield Finding(
                place=name,
                text=f"it was committed at {commit.committed_at.isoformat()}",
                expected=f"later than {at.isoformat()}, when {before} was written",
            )
        else:
            before, at = name, commit.committed_at
