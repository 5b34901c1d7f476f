"""A workspace for an agent that trains: it starts runs under a budget, reads their curves, and submits one of them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from rollwright.environments.errors import ToolError
from rollwright.environments.schemas import Arguments, FunctionSchema, schema_of
from rollwright.record import Message, Task, canonical_json, digest
from rollwright.tasks import Bandit, Json, TaskError, TrainingSettings, bandit_of, payload_of, train_bandit

__all__ = ["RUNS", "TrainingDesk"]

RUNS = "runs.json"
"""The artifact: {"runs": [{rate, steps, baseline, curve}, …], "submitted": number or null, "spent": steps}."""
_BEHAVIOR = 1


class _Desk:
    """Each public method is a tool."""

    def __init__(self, bandit: Bandit, runs: Sequence[Mapping[str, Json]] = (), submitted: int | None = None) -> None:
        self._bandit = bandit
        self.runs = list(runs)
        self.submitted = submitted

    @property
    def spent(self) -> int:
        return sum(cast("int", run["steps"]) for run in self.runs)

    def train(self, rate: float, steps: int, baseline: bool) -> str:  # noqa: FBT001 - the policy names it in JSON
        """Start a run from scratch.

        Args:
            rate: learning rate, 0.001 to 10
            steps: sampled steps, taken from the budget
            baseline: whether the mean reward is taken off
        """
        left = self._bandit.budget - self.spent
        if self.submitted is not None:
            raise ToolError("not_allowed: a run was submitted already")
        if steps > left:
            raise ToolError(f"not_allowed: {left} steps are left")
        try:
            settings = TrainingSettings(rate=rate, steps=steps, baseline=baseline)
        except TaskError as error:
            raise ToolError(f"not_allowed: {error}") from error
        curve = train_bandit(self._bandit, settings, number=len(self.runs)).curve
        self.runs.append({"rate": rate, "steps": steps, "baseline": baseline, "curve": list(curve)})
        shown = " ".join(f"{one:g}" for one in curve)
        return f"run {len(self.runs) - 1}: reward {shown}; {left - steps} steps left"

    def submit(self, run: int) -> str:
        """Submit a run to the grader; once.

        Args:
            run: its number
        """
        if self.submitted is not None:
            raise ToolError("not_allowed: a run was submitted already")
        if not 0 <= run < len(self.runs):
            raise ToolError(f"not_found: no run {run}")
        self.submitted = run
        return f"run {run} submitted"


class _DeskState:
    """An `EpisodeState`."""

    def __init__(self, desk: _Desk, opening: tuple[Message, ...]) -> None:
        self._desk = desk
        self._opening = opening

    def opening(self) -> tuple[Message, ...]:
        return self._opening

    def call(self, tool: str, arguments: Arguments) -> str:
        if tool == "submit":
            return self._desk.submit(cast("int", arguments["run"]))
        rate, steps = cast("float", arguments["rate"]), cast("int", arguments["steps"])
        return self._desk.train(rate, steps, bool(arguments["baseline"]))

    def reply(self, text: str) -> str | None:
        return None

    def standing(self) -> Json:
        return {"runs": self._desk.runs, "submitted": self._desk.submitted}

    def content(self) -> Json:
        return self.standing()

    def artifacts(self) -> Mapping[str, bytes]:
        left: Json = {"runs": self._desk.runs, "submitted": self._desk.submitted, "spent": self._desk.spent}
        return {RUNS: canonical_json(left).encode()}

    def close(self) -> None:
        """Nothing is held."""


class TrainingDesk:
    """A `Scenario`."""

    @property
    def name(self) -> str:
        """In the tables."""
        return "training_desk"

    @property
    def revision(self) -> str:
        """Of the tools' rules."""
        return digest([_BEHAVIOR, "training_desk"])[:16]

    @property
    def schemas(self) -> Mapping[str, FunctionSchema]:
        """To train, and to submit."""
        desk = _Desk(Bandit(chances=(1.0,), budget=1, seed=0))
        return MappingProxyType({tool.__name__: schema_of(tool) for tool in (desk.train, desk.submit)})

    def open(self, task: Task, seed: int) -> _DeskState:
        """No run yet; the problem's own seed decides, not the episode's."""
        return _DeskState(_Desk(bandit_of(task)), payload_of(task).messages)

    def restore(self, task: Task, seed: int, content: Json) -> _DeskState:
        """The runs as they were kept."""
        if not isinstance(content, Mapping) or set(content) != {"runs", "submitted"}:
            raise TaskError("a kept state has runs and submitted")
        runs = cast("Sequence[Mapping[str, Json]]", content["runs"])
        return _DeskState(
            _Desk(bandit_of(task), runs, cast("int | None", content["submitted"])), payload_of(task).messages
        )
