"""What weights that still stand in a checkpoint say of the tokens that they are said to have sampled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rollwright.evidence import Checkpoint, Finding, LoadedRun
from rollwright.learner.forward import Scorer, make_scorer
from rollwright.learner.models import load_causal_lm
from rollwright.learner.probing import context_logprobs
from rollwright.record import ids

__all__ = ["StandingScores"]

_MOST_PARAMETERS = 50_000_000
_MOST_EPISODES = 400
"""Of each version; what is left out is said."""
_TOLERANCE = 1e-2
"""Nats; two ways to compute a score in 32 bits differ by 1e-5, another token by whole nats."""
_SAMPLED = """WITH RECURSIVE chosen AS (
    SELECT trajectory_id FROM segments WHERE policy_version = {version} AND policy = 'policy' AND origin = 'policy'
    GROUP BY trajectory_id ORDER BY trajectory_id LIMIT {most}),
  paths AS (
    SELECT trajectory_id, segment, token_ids AS through FROM segments
    WHERE parent IS NULL AND trajectory_id IN (SELECT trajectory_id FROM chosen)
    UNION ALL SELECT s.trajectory_id, s.segment, list_concat(p.through, s.token_ids)
    FROM segments s JOIN paths p ON s.trajectory_id = p.trajectory_id AND s.parent = p.segment)
  SELECT s.trajectory_id, s.segment, p.through, s.start, s.behavior_logprobs, s.sampling.temperature
  FROM segments s JOIN chosen USING (trajectory_id) JOIN paths p USING (trajectory_id, segment)
  WHERE s.policy_version = {version} AND s.policy = 'policy' AND s.origin = 'policy' AND len(s.token_ids) > 0
    AND s.start > 0 AND s.sampling.temperature > 0 AND s.sampling.top_p = 1 AND s.sampling.top_k = 0
    AND s.sampling.min_p = 0 AND len(s.behavior_logprobs) = len(s.token_ids)
  ORDER BY s.trajectory_id, s.segment"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sampled:
    trajectory_id: str
    segment: int
    through: Sequence[int]
    start: int
    behavior: NDArray[np.float64]
    temperature: float


class StandingScores:
    """Scores the stored tokens of each version whose weights stand."""

    def __init__(self, run: LoadedRun) -> None:
        """Of a run that was read."""
        self._run = run
        self.unchecked: list[str] = []

    def findings(self) -> Iterator[Finding]:
        """The first token of an episode at which its stored score is not what the weights say."""
        standing = {c.step: c for c in self._run.folder.checkpoints() if isinstance(c, Checkpoint)}
        rows = self._run.rows(
            """SELECT policy_version, count(DISTINCT trajectory_id) FROM segments
            WHERE origin = 'policy' AND policy = 'policy' GROUP BY ALL ORDER BY ALL"""
        )
        versions = {cast("int", version): cast("int", count) for version, count in rows}
        gone = [version for version in versions if version not in standing]
        if gone:
            self.unchecked.append(
                f"whether the tokens of {len(gone)} of {len(versions)} policy versions are what these weights sampled: "
                "no checkpoint of them stands."
            )
        if self._run.folder.manifest.model.num_parameters > _MOST_PARAMETERS:
            self.unchecked.append("scores of tokens under stored weights: the model is too large for a check.")
            return
        for version, count in versions.items():
            if version in standing:
                if count > _MOST_EPISODES:
                    self.unchecked.append(
                        f"scores of {count - _MOST_EPISODES} of {count} episodes of version {version}."
                    )
                yield from self._of_version(version, standing[version].path)

    def _of_version(self, version: int, path: Path) -> Iterator[Finding]:
        try:
            scorer = make_scorer(load_causal_lm(path))
        except Exception as error:  # noqa: BLE001 - a checkpoint that was altered may raise anything
            self.unchecked.append(f"scores of version {version}: its checkpoint cannot be loaded: {error}")
            return
        told: set[str] = set()
        for sampled in self._sampled(version):
            if sampled.trajectory_id in told or len(sampled.through) > _most_positions(scorer):
                continue
            scores = _scores(scorer, sampled)
            apart = np.abs(scores - sampled.behavior) > _TOLERANCE
            if apart.any():
                told.add(sampled.trajectory_id)
                first = int(np.flatnonzero(apart)[0])
                yield Finding(
                    place=f"{sampled.trajectory_id}/{sampled.segment}/{first}",
                    text=f"behavior_logprobs is {sampled.behavior[first]:.6g}: the first token of the episode that the "
                    f"weights of version {version} score otherwise; it, or a token before it, is not what was sampled",
                    expected=f"{scores[first]:.6g}, of the checkpoint of step {version}",
                    concern="weights",
                )

    def _sampled(self, version: int) -> Iterator[_Sampled]:
        for name, segment, through, start, behavior, temperature in self._run.rows(
            _SAMPLED.format(version=version, most=_MOST_EPISODES)
        ):
            yield _Sampled(
                trajectory_id=cast("str", name),
                segment=cast("int", segment),
                through=cast("Sequence[int]", through),
                start=cast("int", start),
                behavior=np.asarray(behavior, np.float64),
                temperature=cast("float", temperature),
            )


def _most_positions(scorer: Scorer) -> int:
    return int(scorer.model.config.max_position_embeddings)


def _scores(scorer: Scorer, sampled: _Sampled) -> NDArray[np.float64]:
    """(n,) log-probabilities of a segment's tokens behind their context, at its temperature."""
    tokens = ids(list(sampled.through))
    [found] = context_logprobs(scorer, [tokens])
    scaled = found[sampled.start - 1 :].astype(np.float64) / sampled.temperature
    scaled -= np.logaddexp.reduce(scaled, axis=1, keepdims=True)
    return scaled[np.arange(len(scaled)), tokens[sampled.start :]]
