"""Tasksets of the package `verifiers` (0.4, its `verifiers.v1`): loaded, looked over, and read as tasks.

What cannot be carried is refused here, by name, before a run begins: what a row asks for (images, containers, files),
what a task hooks into (requests of a model), and what an environment pins (programs, models, several seats).
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, cast

from rollwright.record import Message
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json, Payload

__all__ = [
    "VerifiersConfig",
    "VerifiersEnv",
    "VerifiersMessage",
    "VerifiersPackage",
    "VerifiersTask",
    "VerifiersTrace",
    "open_verifiers",
    "text_messages",
    "verifiers_version",
]

_DECIDED = "(the environment's rewards decide)"
_PLAIN_ROW: Mapping[str, Json] = {
    "image": None, "workdir": None, "agent_user": None, "skills": [], "artifacts": [], "network_allow": ["*"],
    "network_block": [],
    "timeout": {"setup": None, "agent": None, "finalize": None, "scoring": None},
    "resources": {"cpu": None, "memory": None, "gpu": None, "disk": None},
}  # fmt: skip
"""Fields of a row that say where and within what it runs, as they are where a row says nothing."""
_PLAIN_SEAT = (
    "model", "client", "sampling", "max_input_tokens", "max_output_tokens", "max_total_tokens",
)  # fmt: skip


VerifiersEnv = Any
VerifiersTask = Any
VerifiersTrace = Any
VerifiersConfig = Any
VerifiersMessage = Any
"""Objects of the package, which says nothing of its types: used in the modules that name it, and nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiersPackage:
    """A loaded environment with what it needs of its package."""

    vf: ModuleType
    env: VerifiersEnv
    task_class: VerifiersTask
    seat: str
    """Of its one agent, whose part the policy plays."""
    seat_config: VerifiersConfig
    max_turns: int | None

    def rows(self) -> Iterator[Payload]:
        """Its rows in order; may be endless.

        Raises:
            TaskError: for a row that asks for what cannot be carried.
        """
        for number, task in enumerate(self.env.taskset):
            data = task.data.model_dump(mode="json")
            _refuse_row(data, number)
            answer = data.get("answer")
            yield Payload(
                messages=_asked(self.vf, task, number),
                answer=answer if isinstance(answer, str) and answer.strip() else _DECIDED,
                info={"data": data},
            )

    def task(self, data: Json) -> VerifiersTask:
        """A task from its row."""
        kind = self.task_class.data_type()
        config = self.env.taskset.config.task
        return self.task_class(kind.model_validate(data), config)

    def trace(self, task: VerifiersTask, state: Json = None) -> VerifiersTrace:
        """An empty trace of a task, as the package makes it."""
        states = importlib.import_module("verifiers.v1.state").state_cls(self.task_class)
        return self.vf.Trace(
            task=self.vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=states() if state is None else states.model_validate(state),
            agent=self.vf.AgentInfo(config=self.seat_config, name=self.seat),
        )


def verifiers_version() -> str:
    """The installed version."""
    return version("verifiers")


def open_verifiers(
    taskset: str, arguments: Mapping[str, Json], *, environment: str = "", settings: Mapping[str, Json] | None = None
) -> VerifiersPackage:
    """Load an environment as the package itself does.

    Args:
        taskset: id, as the package takes it: the name of an installed module that exports a `Taskset`.
        arguments: of the taskset's configuration.
        environment: id of an `Env` to pair it with; empty takes the taskset's own, else the package's single agent.
        settings: of the environment's configuration.

    Raises:
        TaskError: where it is not there, or needs what cannot be carried.
    """
    try:
        vf = importlib.import_module("verifiers.v1")
        version("verifiers")
    except (ImportError, PackageNotFoundError) as error:
        raise TaskError(
            f"the package verifiers (0.4) is not installed; install rollwright[verifiers]: {error}"
        ) from error
    _refuse_legacy(vf, taskset)
    try:
        chosen = {**(settings or {}), "taskset": {**arguments, "id": taskset}, "id": environment}
        env = vf.load_environment(vf.resolve_env_config(chosen))
    except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
        raise TaskError(f"verifiers does not load {taskset!r}: {type(error).__name__}: {error}") from error
    seats = importlib.import_module("verifiers.v1.configs.agent").agent_config_fields(env.config)
    if len(seats) != 1:
        raise TaskError(
            f"{taskset!r} has the seats {', '.join(seats)}; one policy plays here, so only an environment with one "
            "agent can be carried"
        )
    ((seat, seat_config),) = seats.items()
    _refuse_seat(vf, taskset, seat, seat_config)
    task_class = env.taskset.task_type()
    _refuse_task(vf, task_class, env.taskset.config.task)
    return VerifiersPackage(
        vf=vf, env=env, task_class=task_class, seat=seat, seat_config=seat_config, max_turns=seat_config.max_turns
    )


def text_messages(vf: ModuleType, messages: Sequence[VerifiersMessage]) -> tuple[Message, ...]:
    """Messages of the package as ours.

    Raises:
        TaskError: for one that is no text.
    """
    found: list[Message] = []
    for one in messages:
        role, content = _said(one)
        if not isinstance(content, str):
            parts = cast("Sequence[VerifiersMessage]", content or ())
            if any(not isinstance(part, vf.TextContentPart) for part in parts):
                raise TaskError("a message holds an image; only text can be carried")
            content = "\n".join(str(part.text) for part in parts)
        if role == "tool":
            raise TaskError("a message of role tool stands in a prompt; only system, user and assistant can be carried")
        found.append(Message(role=role, text=content))
    return tuple(found)


def _said(message: VerifiersMessage) -> tuple[str, object]:
    if isinstance(message, Mapping):
        given = cast("Mapping[str, object]", message)
        return str(given["role"]), given["content"]
    return str(message.role), message.content


def _asked(vf: ModuleType, task: VerifiersTask, number: int) -> tuple[Message, ...]:
    prompt = task.data.prompt
    if prompt is None:
        return (Message(role="user", text=f"(the environment opens the conversation of row {number})"),)
    if isinstance(prompt, str):
        return (Message(role="user", text=prompt),)
    return text_messages(vf, prompt)


def _refuse_legacy(vf: ModuleType, taskset: str) -> None:
    try:
        module = vf.import_taskset(taskset)
    except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
        raise TaskError(f"verifiers finds no taskset {taskset!r}: {type(error).__name__}: {error}") from error
    names = cast("Mapping[str, object]", vars(module))
    if "load_environment" in names and "__all__" not in names:
        raise TaskError(
            f"{taskset!r} has load_environment(), the interface that verifiers gave up before 0.4; only a Taskset of "
            "verifiers.v1 can be carried"
        )


def _refuse_row(data: Mapping[str, Json], number: int) -> None:
    for name, plain in _PLAIN_ROW.items():
        if data.get(name, plain) != plain:
            raise TaskError(f"row {number} asks for {name}={data[name]!r}; the adapter cannot carry it")


def _refuse_seat(vf: ModuleType, taskset: str, seat: str, config: VerifiersConfig) -> None:
    given = cast("Mapping[str, VerifiersConfig]", vars(config))
    for name in _PLAIN_SEAT:
        if given.get(name) is not None:
            raise TaskError(f"seat {seat} pins {name}; the recipe decides it here, so it cannot be carried")
    harness = given.get("harness")
    if harness is not None and harness.id != "null":
        raise TaskError(f"seat {seat} pins a harness of its own; our driver plays the part of the plain `null` harness")
    if vf.default_harness_id(taskset) != "bash":
        raise TaskError(f"{taskset!r} brings a harness of its own; our driver plays the part of the plain one")


def _refuse_task(vf: ModuleType, task_class: VerifiersTask, config: VerifiersConfig) -> None:
    name = task_class.__name__
    if task_class.NEEDS_CONTAINER:
        raise TaskError(f"task {name} needs a container; it cannot be carried")
    if task_class.runtime_env is not vf.Task.runtime_env:
        raise TaskError(f"task {name} sets variables of its runtime; there is none here, so it cannot be carried")
    members = inspect.getmembers(task_class, callable)
    if hooked := [member for member, function in members if "intercept" in _marks(function)]:
        raise TaskError(f"task {name} intercepts requests of the model ({', '.join(hooked)}); it cannot be carried")
    judges = config.judges
    if judges:
        raise TaskError(f"task {name} is judged by models ({len(judges)} judges); name a judge of ours instead")
    for member, function in members:
        is_scoring = bool({"reward", "metric"} & set(_marks(function)))
        parameter = inspect.signature(function).parameters.get("runtime") if is_scoring else None
        if parameter is not None and parameter.default is parameter.empty:
            raise TaskError(f"{name}.{member} scores in a runtime; there is none here, so it cannot be carried")


def _marks(function: object) -> Mapping[str, object]:
    """The marks of a function."""
    try:
        return vars(function)
    except TypeError:
        return {}
