"""Claims: what may be said, with the least evidence that each needs; a sentence exists only where all of it is there.

Verb and label follow from the evidence, never from who writes. What may never be claimed has no sentence at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from rollwright.record import EvaluationRow
from rollwright.record.gates import Outcome
from rollwright.viewer.errors import ViewerError
from rollwright.viewer.figures import Label

__all__ = [
    "NEVER_CLAIMABLE",
    "REQUIRED",
    "Chain",
    "Claim",
    "ClaimError",
    "ClaimKind",
    "Condition",
    "EvidenceKind",
    "pass_at_one",
    "quantity",
    "verb_of",
    "weakest",
]

ClaimKind = Literal[
    "observed",
    "training improves",
    "tool use helps",
    "credit method is better",
    "asynchronous is faster",
    "mixture works",
    "no reward hacking",
    "confirmed hacks",
    "new capability",
    "throughput",
    "preset matches its documentation",
    "loss is implemented",
    "trained asynchronously",
    "tools inside training",
    "objective used",
    "checkpoint of this code",
    "model reproduced",
]
EvidenceKind = Literal["vendor report", "pinned source", "measured", "arithmetic", "mechanism", "undisclosed"]

REQUIRED: Mapping[ClaimKind, tuple[str, ...]] = {
    "observed": ("two evaluations by one protocol, each with an interval",),
    "training improves": (
        "three or more seeds",
        "gain on held-out tasks, with an interval over seeds and tasks",
        "no held-out task was trained on",
        "a second verifier agrees",
        "entropy inside limits fixed beforehand",
        "length inside limits fixed beforehand",
    ),
    "tool use helps": (
        "net success after the cost of tools, above runs without tools",
        "recovery from tool errors above the supervised start",
        "no gradient on observations",
    ),
    "credit method is better": (
        "runs that differ in the credit method alone, three seeds each",
        "equal environment interactions",
        "success per step",
        "success per accelerator hour",
        "no growth of invalid actions, timeouts or disagreement",
    ),
    "asynchronous is faster": (
        "runs that differ in the lag alone, three seeds each",
        "the success of the synchronous runs reached sooner on the clock",
        "KL inside limits fixed beforehand",
        "importance weights inside limits fixed beforehand",
        "disagreement of verifiers inside limits fixed beforehand",
    ),
    "mixture works": ("no domain below its tolerance", "weights after filtering as intended"),
    "no reward hacking": ("it is never claimable as zero",),
    "confirmed hacks": ("an audit of a sample, with its exact upper bound",),
    "new capability": (
        "pass@k at several k, first and last, by one protocol",
        "a properly elicited base",
        "matched inference",
    ),
    "throughput": ("hardware", "baseline configuration", "length distribution", "pool ratio"),
    "preset matches its documentation": (
        "every D or C key holds the documented value",
        "every U key is listed as substituted",
    ),
    "loss is implemented": (
        "Level 0 fixtures passed",
        "finite differences agree",
        "a deliberately wrong denominator fails",
    ),
    "trained asynchronously": ("trained tokens were sampled by older weights",),
    "tools inside training": ("trained episodes called tools",),
    "objective used": ("receipts of the objective's updates",),
    "checkpoint of this code": ("code commit", "configuration digest", "data revisions", "checkpoint digest"),
    "model reproduced": ("base model, corpus, compute and evaluation within a stated tolerance of the original",),
}
"""Kind of a claim to the least evidence for it, one requirement each; a claim answers exactly these."""

NEVER_CLAIMABLE: frozenset[ClaimKind] = frozenset({"no reward hacking", "model reproduced"})
"""What no run folder carries: hacking is never zero, and a folder holds nothing of an original to compare with."""

_STRENGTH: tuple[Label, ...] = ("U", "I", "D", "C")
_LABELS: Mapping[EvidenceKind, Label] = {
    "vendor report": "D",
    "pinned source": "C",
    "measured": "C",
    "arithmetic": "I",
    "mechanism": "I",
    "undisclosed": "U",
}


class ClaimError(ViewerError):
    """A claim that its evidence does not license."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One requirement, and what the runs say of it."""

    requirement: str
    outcome: Outcome
    because: str
    label: Label = "C"
    """Of the evidence: C where it is computed from the tables of a run; a limit wears its own."""
    gate: str = "no gate"
    """That carries it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What a claim is bound to; a missing link is `unknown`, what does not exist is `none`."""

    run: str
    code_commit: str
    code_sha256: str
    config_sha256: str
    data_revisions: str
    container_digests: str
    checkpoint_sha256: str

    @property
    def is_broken(self) -> bool:
        """True where a link that every run has is unknown."""
        links = (self.code_commit, self.code_sha256, self.config_sha256, self.data_revisions, self.checkpoint_sha256)
        return any("unknown" in link for link in links)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What would be said, and whether it may be."""

    kind: ClaimKind
    about: str
    """The runs, or the arm."""
    evidence: EvidenceKind
    conditions: tuple[Condition, ...]
    finding: str
    """What the numbers say, without its verb; printed only where every condition passed."""
    chains: tuple[Chain, ...]

    def __post_init__(self) -> None:
        """Refuse a claim that leaves a requirement out, adds one, or claims what is never claimable."""
        given = tuple(condition.requirement for condition in self.conditions)
        if given != REQUIRED[self.kind]:
            raise ClaimError(
                f"the claim {self.kind!r} answers {list(given)}; it answers {list(REQUIRED[self.kind])}, in this order."
            )
        if self.kind in NEVER_CLAIMABLE and any(condition.outcome == "passed" for condition in self.conditions):
            raise ClaimError(f"{self.kind!r} is never claimable; say what was found, by which detector, on how many.")

    @property
    def verdict(self) -> Outcome:
        """Failed where a condition failed; passed where all passed."""
        outcomes = {condition.outcome for condition in self.conditions}
        if "failed" in outcomes:
            return "failed"
        return "not enough evidence" if "not enough evidence" in outcomes else "passed"

    @property
    def label(self) -> Label:
        """The weakest that it wears: of its kind of evidence, of its conditions, and U where its chain is broken."""
        broken: tuple[Label, ...] = ("U",) if any(chain.is_broken for chain in self.chains) else ()
        return weakest((_LABELS[self.evidence], *(c.label for c in self.conditions), *broken))

    @property
    def sentence(self) -> str | None:
        """What may be said; None where the evidence is not there."""
        if self.verdict != "passed" or self.kind in NEVER_CLAIMABLE:
            return None
        verb = verb_of(self.evidence)
        return f"{verb[0].upper()}{verb[1:]} {self.finding} (label {self.label})"

    @property
    def refusal(self) -> str | None:
        """What is missing; None where the claim is made."""
        if self.sentence is not None:
            return None
        lacking = [condition for condition in self.conditions if condition.outcome != "passed"]
        reasons = dict.fromkeys(condition.because for condition in lacking)
        if len(reasons) == 1 < len(lacking):
            said = next(iter(reasons))
        else:
            said = "; ".join(f"{condition.requirement} ({condition.because})" for condition in lacking)
        return f"Not claimed of {self.about}: {self.kind}. It lacks: {said}"


def verb_of(evidence: EvidenceKind) -> str:
    """The verb that a kind of evidence licenses."""
    match evidence:
        case "vendor report":
            return "the report states"
        case "pinned source":
            return "the pinned code configures"
        case "measured":
            return "the experiment reports"
        case "arithmetic":
            return "our audit computes"
        case "mechanism":
            return "this suggests"
        case "undisclosed":
            return "unknown:"
        case _:
            assert_never(evidence)


def weakest(labels: tuple[Label, ...]) -> Label:
    """The weakest of labels: U, then I, then D, then C."""
    return min(labels, key=_STRENGTH.index)


def quantity(row: EvaluationRow) -> str:
    """What a number of an evaluation is called: its own metric, never another's name."""
    match row.metric:
        case "success":
            return "success of one attempt"
        case "pass_at_k":
            return f"pass@{row.labels['k']}"
        case "pass_hat_k":
            return f"pass^{row.labels['k']}"
        case "maj_at_k":
            return f"consensus@{row.labels['k']}"
        case "avg_at_n":
            return f"avg@{row.labels['n']}"
        case _:
            return row.metric.replace("_", " ")


def pass_at_one(row: EvaluationRow) -> float | None:
    """The number as pass@1.

    Raises:
        ClaimError: for any metric that is not the success of one attempt, such as a vote of several.
    """
    if row.metric == "success" or (row.metric == "pass_at_k" and row.labels.get("k") == "1"):
        return row.value
    raise ClaimError(
        f"{quantity(row)} is not pass@1: it is what several attempts come to. Give the row of success or of pass@1."
    )
