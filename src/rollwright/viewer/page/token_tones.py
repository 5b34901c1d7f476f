"""Which tone each token is painted in, by a choice of number, and what the tones mean.

s0 … s8   from nothing to the most of the page        n4 … z … p4   below, at and above a middle
k0 … k7   kinds                                        (none)        the number does not exist here
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rollwright.viewer.page.token_numbers import TokenNumbers
from rollwright.viewer.page.words import number

__all__ = ["CHANNELS", "Key", "Painted", "paint"]

CHANNELS: Final[Mapping[str, str]] = {
    "logprob": "log-probability when sampled",
    "advantage": "advantage",
    "ratio": "update ratio, current to proximal",
    "staleness": "staleness ratio, proximal to behavior",
    "mask": "mask: what is trained",
    "weight": "weight in the loss",
    "influence": "influence: |weight · correction · advantage|",
    "entropy": "entropy of its segment",
    "version": "policy version",
    "origin": "origin",
}
_SEQUENTIAL: Final = 8
_SIDES: Final = 4
_KINDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One entry of the legend."""

    tone: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Painted:
    """A tone for each token of each segment, and what the tones mean."""

    tones: tuple[tuple[str, ...], ...]
    keys: tuple[Key, ...]


def paint(segments: Sequence[Sequence[TokenNumbers]], channel: str) -> Painted:
    """Tones of all tokens of a page by one number; the scale is that of the page."""
    return _PAINTERS.get(channel, _by_logprob)(segments)


def _by_logprob(segments: Sequence[Sequence[TokenNumbers]]) -> Painted:
    return _one_sided(segments, lambda t: None if t.behavior is None else -t.behavior, shown=lambda v: -v)


def _one_sided(
    segments: Sequence[Sequence[TokenNumbers]],
    value: Callable[[TokenNumbers], float | None],
    shown: Callable[[float], float] = lambda v: v,
) -> Painted:
    most = max((v for s in segments for t in s if (v := value(t)) is not None and math.isfinite(v)), default=0.0)

    def tone(token: TokenNumbers) -> str:
        v = value(token)
        if v is None:
            return ""
        return f"s{_SEQUENTIAL}" if not math.isfinite(v) else f"s{_step(v, most, _SEQUENTIAL)}"

    keys = [Key(tone=f"s{i}", text=number(shown(most * i / _SEQUENTIAL))) for i in (0, 2, 4, 6, 8)]
    return Painted(tones=_each(segments, tone), keys=tuple(keys) if most > 0 else (Key(tone="s0", text="0"),))


def _two_sided(
    segments: Sequence[Sequence[TokenNumbers]],
    value: Callable[[TokenNumbers], float | None],
    middle: float,
    shown: Callable[[float], float] = lambda v: v,
) -> Painted:
    sizes = (abs(v - middle) for s in segments for t in s if (v := value(t)) is not None and math.isfinite(v))
    most = max(sizes, default=0.0)

    def tone(token: TokenNumbers) -> str:
        v = value(token)
        if v is None or math.isnan(v):
            return ""
        size = _SIDES if math.isinf(v) else _step(abs(v - middle), most, _SIDES)
        return "z" if size == 0 else f"{'p' if v > middle else 'n'}{size}"

    ends = [(f"n{_SIDES}", -most), ("n2", -most / 2), ("z", 0.0), ("p2", most / 2), (f"p{_SIDES}", most)]
    keys = [Key(tone=name, text=number(shown(middle + v))) for name, v in (ends if most > 0 else [("z", 0.0)])]
    return Painted(tones=_each(segments, tone), keys=tuple(keys))


def _mask(segments: Sequence[Sequence[TokenNumbers]]) -> Painted:
    tones = {"trained": "k2", "weight 0": "k3", "may be trained": "k5", "never trained": ""}
    keys = [
        Key(tone="k2", text="trained: it has weight in this update"),
        Key(tone="k3", text="eligible, but of weight 0 in this update"),
        Key(tone="k5", text="eligible, without a receipt in this update"),
        Key(tone="none", text="never trained: the policy did not sample it"),
    ]
    return Painted(tones=_each(segments, lambda t: tones[t.standing]), keys=tuple(keys))


def _kinds(segments: Sequence[Sequence[TokenNumbers]], value: Callable[[TokenNumbers], str | None]) -> Painted:
    names = list(dict.fromkeys(v for s in segments for t in s if (v := value(t)) is not None))
    places = {name: f"k{at % _KINDS}" for at, name in enumerate(names)}

    def tone(token: TokenNumbers) -> str:
        v = value(token)
        return "" if v is None else places[v]

    keys = tuple(Key(tone=places[name], text=name) for name in names[: 2 * _KINDS])
    return Painted(tones=_each(segments, tone), keys=keys)


def _each(
    segments: Sequence[Sequence[TokenNumbers]], tone: Callable[[TokenNumbers], str]
) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(tone(token) for token in segment) for segment in segments)


def _step(value: float, most: float, steps: int) -> int:
    return 0 if most <= 0 or value <= 0 else min(steps, max(1, round(steps * value / most)))


def _log(ratio: float | None) -> float | None:
    return None if ratio is None else -math.inf if ratio <= 0 else math.log(ratio)


_PAINTERS: Final[Mapping[str, Callable[[Sequence[Sequence[TokenNumbers]]], Painted]]] = {
    "logprob": _by_logprob,
    "advantage": lambda s: _two_sided(s, lambda t: t.advantage, 0.0),
    "ratio": lambda s: _two_sided(s, lambda t: _log(t.update_ratio), 0.0, shown=math.exp),
    "staleness": lambda s: _two_sided(s, lambda t: _log(t.staleness_ratio), 0.0, shown=math.exp),
    "mask": _mask,
    "weight": lambda s: _one_sided(s, lambda t: t.weight),
    "influence": lambda s: _one_sided(s, lambda t: t.influence),
    "entropy": lambda s: _one_sided(s, lambda t: t.entropy),
    "version": lambda s: _kinds(s, lambda t: None if t.version is None else f"version {t.version}"),
    "origin": lambda s: _kinds(s, lambda t: t.origin),
}
