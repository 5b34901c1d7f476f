"""Numbers that move from one value to another over the steps of a stage, and stay there (M100, M101)."""

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["geometric_ramp", "linear_ramp"]


def linear_ramp(step: int, *, start: float, end: float, steps: int) -> float:
    """A line, start + (end − start)·step/steps; the end value from `steps` on, at once where `steps` is 0."""
    return start + (end - start) * _progress(step, steps)


def geometric_ramp(step: int, *, start: float, end: float, steps: int) -> float:
    """A curve, start·(end/start)^(step/steps), both above 0: equal steps are equal factors."""
    if start <= 0 or end <= 0:
        raise ObjectiveError(f"a geometric ramp from {start} to {end} needs both above 0.")
    return start * (end / start) ** _progress(step, steps)


def _progress(step: int, steps: int) -> float:
    if step < 0 or steps < 0:
        raise ObjectiveError(f"step {step} of {steps}; both are 0 or more.")
    return min(1.0, step / steps) if steps else 1.0
