"""Whether a limit holds: passed, failed, or not enough evidence, with the number that says so.

A number with an interval passes where both its ends lie within the limit, and fails where neither does. A number that
was counted over everything, such as the largest of all weights, has no interval: the limit decides.
"""

from rollwright.record.gates import Bound, GateVerdict, Measured, Outcome

__all__ = ["Bound", "GateVerdict", "Measured", "Outcome", "judge"]


def judge(name: str, bound: Bound, measured: Measured) -> GateVerdict:
    """One gate.

    Args:
        name: of the gate.
        bound: fixed before the number was made.
        measured: the number; None is not enough evidence, whatever the limit.
    """
    outcome = _outcome(bound, measured)
    return GateVerdict(
        gate=name, outcome=outcome, bound=bound, measured=measured, because=_because(outcome, bound, measured)
    )


def _outcome(bound: Bound, measured: Measured) -> Outcome:
    if measured.value is None:
        return "not enough evidence"
    if measured.low is None or measured.high is None:
        return "passed" if bound.allows(measured.value) else "failed"
    sides = (bound.allows(measured.low), bound.allows(measured.high))
    if all(sides):
        return "passed"
    return "not enough evidence" if any(sides) else "failed"


def _because(outcome: Outcome, bound: Bound, measured: Measured) -> str:
    if measured.value is None:
        return f"there is no number: {measured.source}"
    match outcome:
        case "passed":
            return f"{measured} is {bound}"
        case "failed":
            return f"{measured} is not {bound}"
        case "not enough evidence":
            return f"{measured} may lie on either side of {bound.limit:g}; it has to be {bound}"
