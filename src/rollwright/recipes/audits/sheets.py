"""A sheet for a person: sampled trajectories as lines to label, and what the labels say of the verifier (M121)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from rollwright.recipes.audits.stored import AuditedRun, JudgedRow
from rollwright.recipes.errors import RecipeError
from rollwright.record import Submission
from rollwright.statistics.verifier_audit import VerifierAudit
from rollwright.tasks import TaskError, payload_of

__all__ = ["audits_of_labels", "read_labels", "write_sheet"]


def write_sheet(path: Path, rows: Sequence[JudgedRow], submissions: Sequence[Submission]) -> None:
    """Write one JSON object a trajectory, with `label` null: a person sets it to true (right) or false (wrong).

    What the verifier said is left out, so that it sways nobody.
    """
    lines = [json.dumps(_line(row, s), ensure_ascii=False) for row, s in zip(rows, submissions, strict=True)]
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"the sheet {path} cannot be written: {error.strerror}.") from error


def read_labels(path: Path) -> Mapping[str, bool]:
    """The labels of a sheet: trajectory id to right or wrong; lines without a label are left out.

    Raises:
        RecipeError: naming the line that is no line of a sheet.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"the sheet {path} cannot be read: {error}.") from error
    labels: dict[str, bool] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            loaded: object = json.loads(line)
        except ValueError as error:
            raise RecipeError(f"line {number} of {path} is no JSON: {error}.") from error
        fields = cast("dict[str, object]", loaded) if isinstance(loaded, dict) else {}
        name, label = fields.get("trajectory_id"), fields.get("label")
        if not isinstance(name, str) or "label" not in fields or not (label is None or isinstance(label, bool)):
            raise RecipeError(
                f"line {number} of {path} needs a trajectory_id, and a label that is true, false or null."
            )
        if label is not None and labels.setdefault(name, label) is not label:
            raise RecipeError(f"line {number} of {path} labels {name} again, the other way; say once what it is.")
    if not labels:
        raise RecipeError(f"no line of {path} has a label; set them to true (right) or false (wrong).")
    return labels


def audits_of_labels(run: AuditedRun, labels: Mapping[str, bool]) -> Mapping[str, VerifierAudit]:
    """Counts by source of the tasks.

    Raises:
        RecipeError: for a label of a trajectory that the run did not judge.
    """
    if foreign := sorted(set(labels) - {row.trajectory_id for row in run.rows}):
        raise RecipeError(f"{foreign[0]} is no judged trajectory of {run.path}; is the sheet of another run?")
    return {source: _audit(run.rows, labels, source) for source in sorted({row.source for row in run.rows})}


def _audit(rows: Sequence[JudgedRow], labels: Mapping[str, bool], source: str) -> VerifierAudit:
    mine = [row for row in rows if row.source == source]
    looked = [(row, labels[row.trajectory_id]) for row in mine if row.trajectory_id in labels]
    return VerifierAudit(
        accepted=sum(row.is_accepted for row in mine),
        audited_accepted=sum(row.is_accepted for row, _ in looked),
        false_accepts=sum(row.is_accepted and not is_right for row, is_right in looked),
        rejected=sum(not row.is_accepted for row in mine),
        audited_rejected=sum(not row.is_accepted for row, _ in looked),
        false_rejects=sum(is_right and not row.is_accepted for row, is_right in looked),
    )


def _line(row: JudgedRow, submission: Submission) -> dict[str, object]:
    try:
        payload = payload_of(submission.task)
        asked, gold = "\n\n".join(f"{m.role}: {m.text}" for m in payload.messages), payload.answer
    except (TaskError, ValueError):
        asked, gold = submission.task.payload, ""
    return {
        "trajectory_id": row.trajectory_id,
        "source": row.source,
        "task": {"question": asked, "answer": gold},
        "completion": "".join(f"[{p.kind}] {p.text}\n" for p in submission.passages if p.kind != "user"),
        "ended": submission.terminal_reason,
        "label": None,
        "note": "",
    }
