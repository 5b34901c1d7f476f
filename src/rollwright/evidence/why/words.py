"""What a bit, a reason, a state and a rule mean, in words."""

from collections.abc import Iterator, Mapping

from rollwright.record.rows import Flag

__all__ = ["CUT", "HELD", "counted", "flag_words", "origin_words", "reason_words", "state_words"]

CUT = Flag.TOKEN_MASK | Flag.SEQUENCE_MASK | Flag.OUTSIDE_SUPPORT | Flag.NON_FINITE | Flag.STALE | Flag.TRUNCATION_MASK
"""Bits of a token that is not in the numerator."""

HELD = Flag.CLIPPED_HIGH | Flag.CLIPPED_LOW | Flag.DUAL_CLIP
"""Bits of a token whose ratio a clip held: under a clip that takes the smaller side it has no gradient."""

_FLAGS: Mapping[int, str] = {
    Flag.CLIPPED_HIGH: "clipped high: its ratio lay above the clip's upper bound and was held there",
    Flag.CLIPPED_LOW: "clipped low: its ratio lay below the clip's lower bound and was held there",
    Flag.DUAL_CLIP: "dual clip: its loss was held at the bound for negative advantages",
    Flag.TOKEN_MASK: "token mask: the correction cut this token out of the numerator",
    Flag.SEQUENCE_MASK: "sequence mask: the correction cut its whole row out of the numerator",
    Flag.STALE: "stale: it was sampled by weights older than the bound",
    Flag.NON_FINITE: "not finite: a score that the loss reads was no number, so it was left out",
    Flag.OUTSIDE_SUPPORT: "outside the support that it was drawn from",
    Flag.TRUNCATION_MASK: "truncation mask: its episode was cut, and the rule withholds such rows",
    Flag.ZERO_ADVANTAGE: "zero advantage: it moved nothing",
    Flag.OUTER_CLIP: "outer clip: its ratio was held by a bound outside the clip",
    Flag.SELECTED: "selected by a stage of the update",
}
_REASONS: Mapping[str, str] = {
    "zero_contrast": "every scored attempt of its group earned the same, so there is nothing to prefer",
    "unscored": "nothing gave its episode a number, and an error is no reward",
    "truncated": "its episode was cut by a limit, and the truncation rule withholds such rows",
    "stale": "it was sampled by weights older than the bound",
    "rejected": "the correction cut all of its tokens",
}
_ORIGINS: Mapping[str, str] = {
    "policy": "the policy itself",
    "demonstration": "demonstrations",
    "tool": "a tool",
    "environment": "the environment",
    "template": "the chat template",
    "user": "the user",
    "system": "the system's prompt",
}
_STATES: Mapping[str, str] = {
    "in_flight": "it was dispatched and has not ended",
    "ready": "it ended, was scored, and waits for a batch",
    "trained": "it was consumed by a step",
    "filtered": "a rule took it out before training",
    "expired": "it was older than the bound when its batch was made",
    "failed": "its attempts failed by no fault of the policy",
    "requeued": "its task was dispatched again",
}


def flag_words(flags: int) -> tuple[str, ...]:
    """What each bit that is set means; none set: no rule touched it."""
    return tuple(_said(flags)) or ("no clip, mask or rule touched it",)


def reason_words(reason: str) -> str:
    """Why nothing of a segment was trained."""
    return _REASONS.get(reason, f"the rule {reason} withheld it")


def counted(num: object, what: str) -> str:
    """A number of things, as a person says it: `1 update`, `2 updates`."""
    return f"{num} {what}" if num == 1 else f"{num} {what}s"


def origin_words(origin: str, policy: str | None = None) -> str:
    """Who wrote tokens of an origin."""
    if origin == "policy" and policy not in (None, "policy"):
        return f"the policy {policy}"
    return _ORIGINS.get(origin, f"the origin {origin}")


def state_words(state: str) -> str:
    """What a state of the ledger means."""
    return _STATES.get(state, state)


def _said(flags: int) -> Iterator[str]:
    for bit, words in _FLAGS.items():
        if flags & bit:
            yield words
