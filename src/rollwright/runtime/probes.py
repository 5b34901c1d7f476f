"""Whether the weights that serve are the learner's: a few fixed contexts, scored by both after each publication.

    publish ──► engine.score ──────────────┐
                                           ├──► compare ──► ProbeReport ──► metrics; past a bound: warning or error
    learner's thread ──► context_logprobs ─┘

It waits on the learner's thread and on the engine, until a deadline. The engine answers with the most probable tokens
of each position beside the given one, so a token that only one of the two thinks likely is found too.

An engine that kept the old weights and reports the new version is found in two ways: its distance to the learner passes
the bound; or, where an update moves less than the bound, it is clearly nearer to what the learner said at the previous
publication than to what it says now.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rollwright.record import Engine, Ids, Metric, Sampling, ScoreRequest, Scores, ids
from rollwright.runtime.errors import RuntimeRunError

__all__ = ["ContextScores", "EngineProbe", "ProbeReport", "ProbeRule", "fixed_contexts", "probe_metrics"]

ContextScores = Callable[[Sequence[Ids]], Sequence[NDArray[np.float32]]]
"""(n - 1, V) nats of each context at temperature 1, by the learner's weights as they stand; called in its thread."""

_NEARER = 4.0
"""An engine is stale where the old weights explain it so many times better than the new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRule:
    """What is asked, and what may differ."""

    top_k: int = 8
    max_logprob_gap: float = 0.01
    """Nats. In float32 an engine and a learner differ by about 1e-5; bfloat16 was seen to differ by 0.13."""
    max_logit_gap: float = 0.02
    """Of a token's logit over that of the best token: twice the other bound, since two numbers differ."""
    on_breach: Literal["stop", "warn"] = "stop"
    deadline_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what can be asked of no engine."""
        if self.top_k < 1 or not (self.max_logprob_gap > 0 and self.max_logit_gap > 0 and self.deadline_s > 0):
            raise RuntimeRunError(
                f"a probe with top_k={self.top_k}, max_logprob_gap={self.max_logprob_gap}, max_logit_gap="
                f"{self.max_logit_gap}, deadline_s={self.deadline_s}; allowed are top_k >= 1 and others above 0."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """How far an engine and the learner are apart on the fixed contexts, under weights that should be the same."""

    version: int
    num_positions: int
    greedy_match: float
    """Share of positions with the same most probable token."""
    topk_identity: float
    """Share of positions with the same k most probable tokens."""
    max_logit_gap: float
    """Largest difference of a logit, each taken over its position's best; infinite where a number was not finite."""
    max_logprob_gap: float
    """Largest difference of a log-probability, of given and of most probable tokens; infinite likewise."""
    mean_logit_gap: float = float("nan")
    """Mean of the same over all positions and tokens that are compared."""
    faults: tuple[str, ...]
    """What passed its bound, each in a few words; empty where nothing did."""

    @property
    def has_equal_ids(self) -> bool:
        """Whether greedy decoding takes the same token at every position."""
        return self.greedy_match == 1.0

    @property
    def warning(self) -> str | None:
        """A sentence on what is wrong; None where nothing is."""
        if not self.faults:
            return None
        return (
            f"the engine that should serve version {self.version} does not agree with the learner on fixed contexts: "
            f"{'; '.join(self.faults)}. What it samples is not what the learner takes it for: open the engine again, "
            "or raise the probe's bound where its precision explains this."
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Compared:
    """One context: (n - 1,) each."""

    is_greedy: NDArray[np.bool_]
    is_topk: NDArray[np.bool_]
    logit_gap: NDArray[np.float64]
    logprob_gap: NDArray[np.float64]


class EngineProbe:
    """Compares one engine with one learner; `check` is to be called after each publication, before anything trains."""

    def __init__(
        self,
        engine: Engine,
        score: ContextScores,
        learner_thread: Executor,
        contexts: Sequence[Ids],
        *,
        policy: str = "policy",
        rule: ProbeRule,
    ) -> None:
        """Store the parts.

        Args:
            engine: serves the policy.
            score: the learner's side.
            learner_thread: where it is called.
            contexts: the same in the whole run, each of at least two tokens.
            policy: whose weights are compared.
            rule: what is asked and what may differ.
        """
        if not contexts or min(len(context) for context in contexts) < 2:
            raise RuntimeRunError(
                "a probe needs contexts of at least two tokens: the first of each has no distribution."
            )
        self._engine = engine
        self._score = score
        self._thread = learner_thread
        self._contexts = tuple(contexts)
        self._policy = policy
        self._rule = rule
        self._before: NDArray[np.float64] | None = None
        self._checked: tuple[int, Sequence[NDArray[np.float32]]] | None = None

    @property
    def stops(self) -> bool:
        """Whether a bound that was passed ends the run."""
        return self._rule.on_breach == "stop"

    async def check(self, version: int) -> ProbeReport:
        """Compare engine and learner, which should both stand at `version`.

        Args:
            version: that was just published.

        Returns:
            The differences; under `warn` its `warning` has what passed a bound.

        Raises:
            RuntimeRunError: under `stop`, when a bound was passed; when the engine did not answer in time.
        """
        loop = asyncio.get_running_loop()
        own = await loop.run_in_executor(self._thread, self._score, self._contexts)
        report = self._report(version, own, await self._given(self._engine, own))
        self._before = self._selected(own)
        self._checked = version, own
        if report.warning is not None and self._rule.on_breach == "stop":
            raise RuntimeRunError(report.warning)
        return report

    async def fault_of(self, engine: Engine, version: int) -> str | None:
        """What is wrong with an engine that was made again and given the weights of the last check.

        The learner is not asked: it may train meanwhile. What it said at that check is kept.

        Args:
            engine: the new one.
            version: that it should serve.

        Returns:
            A sentence; None where nothing is wrong, or where another version was checked last: that one is checked
            once it is published.
        """
        if self._checked is None or self._checked[0] != version:
            return None
        own = self._checked[1]
        return self._report(version, own, await self._given(engine, own)).warning

    async def _given(self, engine: Engine, own: Sequence[NDArray[np.float32]]) -> list[Scores]:
        top_k = min(self._rule.top_k, own[0].shape[1])
        try:
            async with asyncio.timeout(self._rule.deadline_s):
                return [await engine.score(self._request(context, top_k)) for context in self._contexts]
        except TimeoutError as error:
            raise RuntimeRunError(
                f"the engine did not score the probe's contexts within {self._rule.deadline_s:g} s; look at what it "
                "does, or raise the probe's deadline."
            ) from error

    def _request(self, context: Ids, top_k: int) -> ScoreRequest:
        return ScoreRequest(
            policy=self._policy, token_ids=context, score_from=1, sampling=Sampling(), tensors={}, top_k=top_k
        )

    def _report(self, version: int, own: Sequence[NDArray[np.float32]], given: Sequence[Scores]) -> ProbeReport:
        compared = [_compare(c, o, g) for c, o, g in zip(self._contexts, own, given, strict=True)]
        logit_gap = _largest([c.logit_gap for c in compared])
        logprob_gap = _largest([c.logprob_gap for c in compared])
        is_greedy = np.concatenate([c.is_greedy for c in compared])
        faults: list[str] = []
        served = sorted({scores.policy_version for scores in given} - {version})
        if served:
            faults.append(f"it says that version {', '.join(map(str, served))} serves")
        for name, gap, bound in (
            ("log-probability", logprob_gap, self._rule.max_logprob_gap),
            ("logit", logit_gap, self._rule.max_logit_gap),
        ):
            if gap > bound:
                faults.append(f"the largest difference of a {name} is {gap:.3g} (allowed {bound:g})")
        if self._is_of_old_weights(own, given):
            faults.append("it is nearer to the weights published before than to these")
        return ProbeReport(
            version=version,
            num_positions=len(is_greedy),
            greedy_match=float(is_greedy.mean()),
            topk_identity=float(np.concatenate([c.is_topk for c in compared]).mean()),
            max_logit_gap=logit_gap,
            max_logprob_gap=logprob_gap,
            mean_logit_gap=float(np.concatenate([c.logit_gap for c in compared]).mean()),
            faults=tuple(faults),
        )

    def _is_of_old_weights(self, own: Sequence[NDArray[np.float32]], given: Sequence[Scores]) -> bool:
        if self._before is None:
            return False
        found = np.concatenate([scores.logprobs for scores in given])
        to_new, to_old = _largest([found - self._selected(own)]), _largest([found - self._before])
        return to_new > _NEARER * to_old

    def _selected(self, own: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """The learner's log-probabilities of the contexts' own tokens."""
        pairs = zip(self._contexts, own, strict=True)
        return np.concatenate([o[np.arange(len(o)), c[1:]].astype(np.float64) for c, o in pairs])


def fixed_contexts(vocab: int, *, num_contexts: int = 4, num_tokens: int = 24) -> tuple[Ids, ...]:
    """Contexts that depend on the vocabulary's size alone, so that a run asks the same ones from start to end.

    Args:
        vocab: number of token ids.
        num_contexts: how many.
        num_tokens: of each.

    Returns:
        Token ids all over the vocabulary, different in each context from the first token on.
    """
    steps = np.arange(num_tokens, dtype=np.int64)
    return tuple(ids((steps * steps * 31 + steps * 7919 + row * 104729 + 1) % vocab) for row in range(num_contexts))


def probe_metrics(report: ProbeReport, *, step: int, now: datetime) -> tuple[Metric, ...]:
    """The metrics of a report.

    Args:
        report: of the publication after `step`.
        step: that they belong to.
        now: their time stamp.

    Returns:
        Of the policy, in a fixed order; a gap that is not finite is null.
    """
    numbers = (
        ("mismatch/token_ids", float(report.has_equal_ids), "bool"),
        ("mismatch/greedy_match", report.greedy_match, "fraction"),
        ("mismatch/topk_identity", report.topk_identity, "fraction"),
        ("mismatch/probe_logit_abs", report.max_logit_gap, "1"),
        ("mismatch/probe_logit_mean", report.mean_logit_gap, "1"),
        ("mismatch/probe_logp_abs", report.max_logprob_gap, "nat"),
    )
    return tuple(
        Metric(
            step=step,
            update=0,
            name=name,
            value=value if np.isfinite(value) else None,
            unit=unit,
            labels={},
            num_items=report.num_positions,
            recorded_at=now,
        )
        for name, value, unit in numbers
    )


def _compare(context: Ids, own: NDArray[np.float32], given: Scores) -> _Compared:
    """One context.

    Args:
        context: (n,)
        own: (n - 1, V) of the learner.
        given: of the engine, with its k best tokens of each position.
    """
    best_ids = given.tensors["topk_ids"].astype(np.int64)
    best = given.tensors["topk_logprobs"].astype(np.float64)
    places = np.arange(len(own))
    learned = own.astype(np.float64)
    at_best = np.take_along_axis(learned, best_ids, axis=1)
    top_k = best_ids.shape[1]
    own_best = np.argpartition(-learned, top_k - 1, axis=1)[:, :top_k]
    # A token that the learner alone thinks likely: the engine gave it at most what its last of the k has.
    is_missing = (own_best[:, :, None] != best_ids[:, None, :]).all(axis=2)
    shortfall = np.take_along_axis(learned, own_best, axis=1) - best[:, -1:]
    gaps = [
        np.abs(given.logprobs.astype(np.float64) - learned[places, context[1:]])[:, None],
        np.abs(best - at_best),
        np.where(is_missing, np.maximum(shortfall, 0.0), 0.0),
    ]
    return _Compared(
        is_greedy=best_ids[:, 0] == learned.argmax(axis=1),
        is_topk=~is_missing.any(axis=1),
        logit_gap=np.abs((best - best[:, :1]) - (at_best - at_best[:, :1])).max(axis=1),
        logprob_gap=np.concatenate(gaps, axis=1).max(axis=1),
    )


def _largest(gaps: Sequence[NDArray[np.float64]]) -> float:
    """The largest absolute number; infinite where one is none."""
    found = float(np.abs(np.concatenate(gaps)).max())
    return found if np.isfinite(found) else float("inf")
