"""The sections of a report that say its claims, list what is not claimed, and name what all of it is bound to."""

from collections.abc import Sequence

from rollwright.viewer.figures import Cell, Table
from rollwright.viewer.figures_bars import tables_provenance
from rollwright.viewer.figures_run import RunNumbers
from rollwright.viewer.report.claims import Claim
from rollwright.viewer.report.claims_of_one import chain_of, claims_of_one
from rollwright.viewer.report.claims_of_runs import claims_of_arms
from rollwright.viewer.report.comparing import MeasuredRun, arms_of
from rollwright.viewer.report.document import Bullets, Paragraph, Section

__all__ = ["claims_of", "claims_sections"]


def claims_of(runs: Sequence[MeasuredRun]) -> tuple[Claim, ...]:
    """Every claim of the list, of each run and of each arm."""
    arms = arms_of(runs)
    of_one = [
        claim
        for arm in arms
        for run in arm.runs
        for claim in claims_of_one(run.numbers, [r.numbers for other in arms if other is not arm for r in other.runs])
    ]
    return (*claims_of_arms(arms), *of_one)


def claims_sections(runs: Sequence[MeasuredRun]) -> tuple[tuple[Section, ...], int, int]:
    """What may be said, what is not said and why, and what it is bound to; with how many of each."""
    claims = claims_of(runs)
    made = [claim for claim in claims if claim.sentence is not None]
    refused = [claim for claim in claims if claim.sentence is None]
    said = tuple(f"{claim.sentence}. {_gates(claim)}." for claim in made)
    first = runs[0].numbers
    sections = (
        Section(
            slug="claims",
            title="What may be said",
            blocks=(
                Bullets(items=said) if said else Paragraph(text="Nothing: no claim has its least evidence."),
                _conditions(claims, first),
                _chains(runs, first),
            ),
        ),
        Section(
            slug="not-claimed",
            title="What is not claimed, and what it lacks",
            blocks=(Bullets(items=tuple(f"{claim.refusal}." for claim in refused)),),
        ),
    )
    return sections, len(made), len(refused)


def _gates(claim: Claim) -> str:
    named = sorted({condition.gate for condition in claim.conditions} - {"no gate"})
    return f"Carried by {', '.join(named)}" if named else "No gate carries it"


def _conditions(claims: Sequence[Claim], first: RunNumbers) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (claim.kind, claim.about, c.requirement, c.outcome, c.because, c.label, c.gate)
        for claim in claims
        for c in claim.conditions
    ]
    return Table(
        slug="conditions",
        title="Each claim and the least evidence that it needs",
        columns=("claim", "about", "it needs", "outcome", "because", "label", "gate"),
        rows=tuple(rows),
        provenance=tables_provenance(first, "rollwright.viewer.report.saying:claims_of over the run folders"),
    )


def _chains(runs: Sequence[MeasuredRun], first: RunNumbers) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for chain in (chain_of(run.numbers) for run in runs):
        rows.append(
            (
                chain.run,
                "none cited",
                chain.code_commit,
                chain.code_sha256,
                chain.config_sha256,
                chain.data_revisions,
                chain.container_digests,
                chain.checkpoint_sha256,
            )
        )
    return Table(
        slug="binding-chain",
        title="What every claim is bound to",
        columns=tuple("run|paper|code commit|code digest|configuration|data|containers|last checkpoint".split("|")),
        rows=tuple(rows),
        provenance=tables_provenance(first, "manifest.json of the newest segment, and the newest checkpoint's marker"),
        note="a link that is missing is unknown; what does not exist is none",
    )
