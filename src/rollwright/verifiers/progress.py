"""How far an episode came, by a tree of rules over what it left behind; each rule's reason is stored (WebJudge).

An outcome judge says whether the task was done; this says what of it was. The two are parts of their own, so that one
never hides the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, digest
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.grading import FunctionVerifier, Grade

__all__ = ["ProgressRule", "RuleFn", "progress_verifier"]

RuleFn = Callable[[Submission], str | None]
"""What shows that the rule holds, for the record; None where it does not."""
_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRule:
    """A rule, or a node over other rules."""

    name: str
    holds: RuleFn | None = None
    """Of a leaf."""
    weight: float = 1.0
    """Among its siblings."""
    children: "tuple[ProgressRule, ...]" = ()
    join: Literal["share", "all", "in_order"] = "share"
    """`share`: weighted share of the children. `all`: 1 or 0. `in_order`: a child counts once all before it hold."""

    def __post_init__(self) -> None:
        """Refuse a node that is both or neither."""
        if (self.holds is None) == (not self.children) or self.weight <= 0:
            raise VerifierSetupError(
                f"rule {self.name!r} needs a function or children, one of the two, and a weight above 0"
            )

    def parts(self) -> list[object]:
        """What decides the rule, for a revision."""
        by = "" if self.holds is None else f"{self.holds.__module__}:{self.holds.__qualname__}"
        return [self.name, by, float(self.weight), self.join, [child.parts() for child in self.children]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    share: float
    leaves: tuple[tuple[str, float], ...]
    reasons: tuple[str, ...]


def progress_verifier(tree: ProgressRule, *, name: str = "progress") -> FunctionVerifier:
    """The share of the tree that holds; each leaf is a component, and the evidence says why it holds or not.

    Args:
        tree: its leaves have different names.
        name: in the tables.

    Raises:
        VerifierSetupError: for leaves of one name.
    """
    names = _leaf_names(tree)
    if len(set(names)) != len(names):
        raise VerifierSetupError(f"the leaves of a progress tree have different names; there are {names}")

    def grade(submission: Submission) -> Grade:
        reached = _reach(tree, submission)
        components = tuple(NamedValue(name=leaf, value=value) for leaf, value in reached.leaves)
        return Grade(value=reached.share, evidence="\n".join(reached.reasons), components=components)

    revision = digest([_REVISION, name, repr(tree.parts())])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade)


def _reach(rule: ProgressRule, submission: Submission) -> _Reached:
    if rule.holds is not None:
        shown = rule.holds(submission)
        reason = f"{rule.name}: {'not reached' if shown is None else shown}"
        share = float(shown is not None)
        return _Reached(share=share, leaves=((rule.name, share),), reasons=(reason,))
    found = [_reach(child, submission) for child in rule.children]
    return _Reached(
        share=_joined(rule, [one.share for one in found]),
        leaves=tuple(leaf for one in found for leaf in one.leaves),
        reasons=tuple(reason for one in found for reason in one.reasons),
    )


def _joined(rule: ProgressRule, shares: Sequence[float]) -> float:
    if rule.join == "all":
        return float(all(share >= 1.0 for share in shares))
    whole = sum(child.weight for child in rule.children)
    total = 0.0
    for child, share in zip(rule.children, shares, strict=True):
        total += child.weight * share
        if rule.join == "in_order" and share < 1.0:
            break
    return total / whole


def _leaf_names(rule: ProgressRule) -> list[str]:
    return [rule.name] if rule.holds is not None else [name for child in rule.children for name in _leaf_names(child)]
