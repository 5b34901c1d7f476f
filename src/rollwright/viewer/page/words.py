"""Numbers, times and durations as a person reads them; the same in every page."""

import math
from datetime import UTC, datetime

__all__ = ["number", "percent", "seconds", "share", "time_of", "when"]


def number(value: object) -> str:
    """A number in at most five significant digits; `—` where it is undefined."""
    match value:
        case None:
            return "—"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return _float(value)
        case _:
            return str(value)


def percent(value: float | None) -> str:
    """A share of one as percent."""
    return "—" if value is None else f"{100 * value:.1f} %"


def share(part: float, whole: float) -> float | None:
    """`part / whole`; None of nothing."""
    return part / whole if whole else None


def seconds(value: float | None) -> str:
    """A duration: `340 ms`, `12.3 s`, `4 min 02 s`, `3 h 05 min`."""
    if value is None:
        return "—"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    if value < 60:
        return f"{value:.3g} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60):02d} s"
    return f"{int(value // 3600):,} h {int(value % 3600 // 60):02d} min"


def when(value: datetime | None) -> str:
    """A moment in UTC."""
    return "—" if value is None else f"{_utc(value):%Y-%m-%d %H:%M:%S}"


def time_of(value: datetime) -> str:
    """A moment as machines read it, for `<time datetime=…>`."""
    return _utc(value).isoformat()


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _float(value: float) -> str:
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "not a number")
    if value == 0:
        return "0"
    size = abs(value)
    text = f"{value:.2e}" if size < 1e-4 or size >= 1e7 else f"{value:,.0f}" if size >= 1e5 else f"{value:.5g}"
    return text.replace("-", "−")
