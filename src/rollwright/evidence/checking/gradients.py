"""Receipts against segments, weights against denominators, and the numbers of a receipt against each other.

What each token of a receipt carried stands in the table `weighed`: a row a receipt and token.
"""

from collections.abc import Iterator, Sequence

from rollwright.evidence.checking.findings import Finding
from rollwright.evidence.checking.loading import LoadedRun
from rollwright.evidence.checking.questions import questions, statements
from rollwright.evidence.views import query_text

__all__ = ["audit_findings", "check_gradients", "lay_weighed"]

_STREAMS = (
    "proximal_logprobs",
    "current_logprobs",
    "reference_logprobs",
    "teacher_logprobs",
    "predicted_values",
    "value_targets",
)
_RUNS = ("advantage", "token_weight", "correction", "flags")


def check_gradients(run: LoadedRun) -> Iterator[Finding]:
    """Every gradient is covered, no foreign token weighs anything, and every number is what the others make it."""
    retention = run.folder.retention
    if "receipts" not in run.missing:
        yield from audit_findings(run)
    for question in questions("receipts"):
        yield from run.found("gradients", question)
    if retention != "sums":
        lay_weighed(run)
        yield from _lengths(run)
        for question in questions("weighed"):
            yield from run.found("gradients", question)
    if retention == "full":
        for question in questions("scored"):
            yield from run.found("gradients", question)


def audit_findings(run: LoadedRun) -> Iterator[Finding]:
    """The audit query, as far as the retention allows."""
    name = "audit_sums" if run.folder.retention == "sums" else "audit"
    for place, due, found, faults in run.rows(query_text(name)):
        said = [_number(value) for value in (due, found, faults)]
        place = str(place)
        text = _update_text(said) if place.split(" ")[0].isdigit() else _slot_text(said)
        yield Finding(place=place, text=text, concern="gradients")


def lay_weighed(run: LoadedRun) -> None:
    """Make the tables `weighed` and `kept_of`: between what and what the kept tokens of a receipt are, and move."""
    run.connection.execute(statements("lay_weighed"))


def _update_text(said: Sequence[object]) -> str:
    due, found, faults = said
    if due is None:
        return "receipts without the metric weight_sum: nothing says what their weights must sum to"
    if faults is None:
        return f"the metric weight_sum says {due}, and there are no receipts"
    if faults:
        return f"{faults} receipts weigh what they must not, or twice, or not token by token"
    return f"weights sum to {found}, and the denominator says {due}"


def _slot_text(said: Sequence[object]) -> str:
    due, found, faults = said
    if due is None:
        return f"it has receipts of step {_whole(found)}, and no slot of the ledger was trained with it"
    if faults is None:
        return f"the ledger says trained in step {_whole(due)}, and it has no receipt"
    return f"the ledger says trained in step {_whole(due)}; receipts are of {faults} steps, the first {_whole(found)}"


def _number(value: object) -> float | int | None:
    return value if isinstance(value, float | int) else None


def _whole(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _lengths(run: LoadedRun) -> Iterator[Finding]:
    """Runs and lists that have not one value a token."""
    for column in _RUNS:
        yield from run.found(
            "gradients",
            f"""SELECT {_PLACE}, concat('{column} has ', len(expand(r.{column})), ' values'),
            concat(s.num_tokens, ', one a token')
            FROM receipts r JOIN segments s USING (trajectory_id, segment)
            WHERE r.{column} IS NOT NULL AND (len(expand(r.{column})) <> len(s.token_ids)
              OR len(r.{column}.n) > 0 AND len(r.{column}.n) <> len(r.{column}.v))""",
        )
    for column in _STREAMS:
        yield from run.found(
            "gradients",
            f"""SELECT {_PLACE}, concat('{column} has ', len(r.{column}), ' values'),
            concat(s.num_tokens, ', one a token')
            FROM receipts r JOIN segments s USING (trajectory_id, segment)
            WHERE r.{column} IS NOT NULL AND len(r.{column}) <> len(s.token_ids)""",
        )


_PLACE = "concat('receipts ', r.update, ' ', r.component, ' ', r.trajectory_id, ' ', r.segment)"
