"""Preferences of many people as mixtures of a few shared rewards, fitted from choices (low-rank Bradley–Terry)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.errors import StatisticsError

__all__ = ["Choice", "PreferenceBasis", "choice_accuracy", "fit_basis", "fit_mixture", "pooled_mixture"]

_STEPS = 400
_RATE = 0.5
_DECAY = 1e-3
"""Pull of the basis towards 0, so that separable choices have a finite fit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """One answer was preferred to another by one person."""

    person: str
    """An opaque id: nothing else of a person is kept."""
    features: NDArray[np.float64]
    """(D,) of the preferred answer minus those of the other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreferenceBasis:
    """Shared rewards and each person's mixture of them."""

    basis: NDArray[np.float64]
    """(K, D): row k weighs the features in reward k."""
    mixtures: Mapping[str, NDArray[np.float64]]
    """(K,) by opaque id, at least 0, summing to 1."""


def fit_basis(choices: Sequence[Choice], *, rank: int, seed: int) -> PreferenceBasis:
    """Fit K rewards and a mixture for each person by maximum likelihood, −Σ log σ(wᵤ · B · (x⁺ − x⁻)).

    Args:
        choices: of several people.
        rank: K, at least 1; with 1 everybody is one person.
        seed: of the start.
    """
    if not choices or rank < 1:
        raise StatisticsError(f"{len(choices)} choices and rank {rank}; at least one of each is needed.")
    features, people, row = _table(choices)
    generator = np.random.default_rng(seed)
    basis = generator.normal(0.0, 0.5, (rank, features.shape[1]))
    logits = generator.normal(0.0, 0.5, (len(people), rank))
    counts = np.bincount(row, minlength=len(people)).astype(np.float64)
    for _ in range(_STEPS):
        mixtures = _softmax(logits)
        rewards = features @ basis.T
        slack = _slack((mixtures[row] * rewards).sum(axis=1))
        basis += _RATE * ((mixtures[row] * slack[:, None]).T @ features / len(row) * rank - _DECAY * basis)
        pull = np.zeros_like(logits)
        np.add.at(pull, row, slack[:, None] * rewards)
        logits += _RATE * _through_softmax(mixtures, pull / counts[:, None])
    return PreferenceBasis(basis=basis, mixtures=dict(zip(people, _softmax(logits), strict=True)))


def fit_mixture(basis: NDArray[np.float64], choices: Sequence[Choice]) -> NDArray[np.float64]:
    """A new person's mixture from a few choices, the basis left as it is.

    Args:
        basis: (K, D).
        choices: of that person; few are enough, K − 1 numbers are fitted.

    Returns:
        (K,) at least 0, summing to 1; equal shares without choices.
    """
    logits = np.zeros((1, len(basis)))
    if choices:
        rewards = np.stack([choice.features for choice in choices]) @ basis.T
        for _ in range(_STEPS):
            mixture = _softmax(logits)
            pull = (_slack(rewards @ mixture[0])[:, None] * rewards).mean(axis=0, keepdims=True)
            logits += _RATE * _through_softmax(mixture, pull)
    return _softmax(logits)[0]


def pooled_mixture(fitted: PreferenceBasis) -> NDArray[np.float64]:
    """(K,) the mean mixture: what everybody together prefers."""
    return np.mean(np.stack(list(fitted.mixtures.values())), axis=0)


def choice_accuracy(reward: NDArray[np.float64], choices: Sequence[Choice]) -> float | None:
    """Share of choices that a reward (D,) over features predicts, ties half; None without choices."""
    if not choices:
        return None
    gaps = np.stack([choice.features for choice in choices]) @ reward
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


def _table(choices: Sequence[Choice]) -> tuple[NDArray[np.float64], list[str], NDArray[np.int64]]:
    people = sorted({choice.person for choice in choices})
    place = {person: number for number, person in enumerate(people)}
    row = np.array([place[choice.person] for choice in choices], dtype=np.int64)
    return np.stack([choice.features for choice in choices]), people, row


def _slack(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 − σ(gap): how far each choice is from being certain."""
    return 1.0 / (1.0 + np.exp(np.clip(gaps, -60.0, 60.0)))


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def _through_softmax(mixtures: NDArray[np.float64], pull: NDArray[np.float64]) -> NDArray[np.float64]:
    return mixtures * (pull - (mixtures * pull).sum(axis=1, keepdims=True))
