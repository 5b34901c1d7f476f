"""The run that an agent submitted, trained again: its recorded settings count, not the curve beside them."""

from collections.abc import Mapping, Sequence
from typing import cast

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import Bandit, Json, TaskError, TrainingSettings, bandit_of, read_json, train_bandit
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade

__all__ = ["submitted_run_verifier"]

_ARTIFACT = "runs.json"
_REVISION = 1


def submitted_run_verifier(*, name: str = "submitted_run") -> FunctionVerifier:
    """Expected reward of the submitted run's policy, as a share of the best arm's; 0 where none was, or over budget."""

    def grade(submission: Submission) -> Grade:
        try:
            bandit = bandit_of(submission.task)
            left = cast("Mapping[str, Json]", read_json(submission.artifacts[_ARTIFACT].decode()))
            runs = [_settings(run) for run in cast("Sequence[Mapping[str, Json]]", left["runs"])]
            submitted = left["submitted"]
        except (TaskError, KeyError, ValueError, TypeError) as error:
            raise GoldError(f"the episode left no {_ARTIFACT} that can be read: {error!r}") from error
        return _graded(bandit, runs, submitted)

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)


def _graded(bandit: Bandit, runs: Sequence[TrainingSettings], submitted: Json) -> Grade:
    spent = sum(run.steps for run in runs)
    counts = (NamedValue(name="runs", value=float(len(runs))), NamedValue(name="spent", value=float(spent)))
    if not isinstance(submitted, int) or not 0 <= submitted < len(runs):
        return Grade(value=0.0, finding="nothing_submitted", evidence=f"{len(runs)} runs", components=counts)
    if spent > bandit.budget:
        evidence = f"{spent} steps of {bandit.budget}"
        return Grade(value=0.0, finding="over_budget", evidence=evidence, components=counts)
    value = train_bandit(bandit, runs[submitted], number=submitted).value(bandit)
    return Grade(value=value, evidence=f"run {submitted} of {len(runs)}, {spent} steps", components=counts)


def _settings(run: Mapping[str, Json]) -> TrainingSettings:
    return TrainingSettings(
        rate=float(cast("float", run["rate"])), steps=cast("int", run["steps"]), baseline=bool(run["baseline"])
    )
