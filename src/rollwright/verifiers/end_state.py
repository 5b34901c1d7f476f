"""The files that an episode left are exactly those that its job asks for."""

from collections.abc import Mapping

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import TaskError, read_json, shell_job_of
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade
from rollwright.verifiers.repository import REPOSITORY_TREE

__all__ = ["end_state_verifier"]

_REVISION = 1


def end_state_verifier(*, name: str = "end_state") -> FunctionVerifier:
    """1 where every file at the end is as it must be and there is no other, else 0.

    Args:
        name: in the tables.
    """
    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=_grade)


def _grade(submission: Submission) -> Grade:
    try:
        wanted = shell_job_of(submission.task).end
    except TaskError as error:
        raise GoldError(str(error)) from error
    data = submission.artifacts.get(REPOSITORY_TREE)
    if data is None:
        return Grade(value=0.0, finding="nothing_changed", evidence="the episode used no tool")
    try:
        left = read_json(data.decode())
    except (ValueError, RecursionError):
        left = None
    files = left.get("files") if isinstance(left, Mapping) else None
    others = left.get("left_out") if isinstance(left, Mapping) else None
    if not isinstance(files, Mapping) or others:
        return Grade(value=0.0, finding="bad_tree", evidence=f"files that are no text: {str(others)[:200]}")
    wrong = sorted(path for path in {*wanted, *files} if files.get(path) != wanted.get(path))
    share = NamedValue(
        name="files_right", value=sum(files.get(path) == text for path, text in wanted.items()) / len(wanted)
    )
    evidence = f"{len(wrong)} files are not as they must be" + (f", {wrong[0]!r} first" if wrong else "")
    return Grade(value=float(not wrong), evidence=evidence, components=(share,))
