"""Before an episode is played: the world builds, says who it is, and has tasks whose splits are apart."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, shown
from rollwright.recipes.worlds.checking.playing import SEED, turns_of
from rollwright.recipes.worlds.checking.process_state import process_state
from rollwright.recipes.worlds.checking.schemas import ToolFace, read_tool
from rollwright.recipes.worlds.checking.stage import SLOW_S, describe
from rollwright.recipes.worlds.world import World
from rollwright.record import Message, Task, canonical_json
from rollwright.rollout.borders import read_face
from rollwright.tasks import HELD_OUT, TRAIN, SplitSizes, Stratum, TaskError, payload_of, question_key
from rollwright.verifiers import Composition, VerifierSetupError

__all__ = ["builds", "has_protocol", "has_tasks", "is_stable", "offers_tools"]

_SIZES = SplitSizes(train=120, held_out=60)
_ENVIRONMENT = {"open": "an episode", "name": "a name", "revision": "a version", "actors": "who plays"}
_EPISODE = {
    "tools": "tools",
    "begin": "a first observation",
    "call": "an answer to a call",
    "step": "a transition",
    "artifacts": "what verifiers read",
    "snapshot": "a snapshot, or NotSnapshottableError",
}


async def builds(bench: Bench) -> str:
    """The callable gives a world with verifiers that pay."""
    bench.stage.at("building the world", SLOW_S)
    try:
        world = bench.world = bench.make()
        bench.state = process_state()
    except RecipeError as error:
        raise CheckFailedError(str(error)) from error  # A sentence already, and whole.
    try:
        bench.composition = Composition(world.parts)
    except VerifierSetupError as error:
        raise CheckFailedError(f"the world has no reward: {error}") from error
    except Exception as error:
        raise CheckFailedError(f"its verifiers cannot be composed: {describe(error)}") from error
    return f"{', '.join(f'{p.verifier.name} x {p.weight:g}' for p in world.parts)} judge its episodes"


async def has_protocol(bench: Bench) -> str:
    """Environment and episode have what the protocol names."""
    environment = bench.built().environment
    _refuse_missing("the environment", environment, _ENVIRONMENT)
    face = read_face(environment)
    if face.fault is not None:
        raise CheckFailedError(f"the environment: {face.fault}")
    for what, text in (("name", face.name), ("revision (its version)", face.revision)):
        if not text.strip():
            raise CheckFailedError(f"the environment's {what} is empty; runs record it, and a change must show in it")
    if not face.actors:
        raise CheckFailedError("the environment has no actors; name at least one and the policy that plays it")
    return f"{face.name}, revision {face.revision}, played by {', '.join(face.actors)}"


async def has_tasks(bench: Bench) -> str:
    """Both splits have tasks, the same ones each time, and none in both."""
    world = bench.built()
    strata = _strata(bench, world)
    train = [task for stratum in strata for task in stratum.train]
    held_out = [task for stratum in strata for task in stratum.held_out]
    if not train or not held_out:
        raise CheckFailedError(f"{len(train)} training and {len(held_out)} held-out tasks; each split needs some")
    for split, tasks in ((TRAIN, train), (HELD_OUT, held_out)):
        wrong = next((task for task in tasks if task.split != split), None)
        if wrong is not None:
            raise CheckFailedError(f"task {wrong.task_id} stands in the split {split!r} and says {wrong.split!r}")
    if _ids(_strata(bench, world)) != _ids(strata):
        raise CheckFailedError("the same sizes and seed gave other tasks the second time")
    await _refuse_leak(bench, train, held_out)
    chosen = _in_turns(strata)
    bench.tasks = tuple(islice(chosen, bench.order.num_tasks))
    sizes = f"{len(train)} training and {len(held_out)} held-out tasks of {len(strata)} pools"
    return f"{sizes}, none in both; {len(bench.tasks)} are played here"


async def is_stable(bench: Bench) -> str:
    """A second world is the same world."""
    bench.stage.at("building the world a second time", SLOW_S)
    one = bench.built()
    other = bench.make()
    faces = [_identity(world) for world in (one, other)]
    if other is not one:
        bench.stage.at("closing the second world", SLOW_S)
        other.close()
    for what, first in faces[0].items():
        if faces[1][what] != first:
            raise CheckFailedError(
                f"{what} was {shown(first)} and is {shown(faces[1][what])} in a second world made alike; it must "
                "depend on code and settings alone"
            )
    return "name, revision, verifiers and threshold are the same in a second world"


async def offers_tools(bench: Bench) -> str:
    """Schemas are valid, and the same in every episode."""
    world = bench.built()
    first: Mapping[str, str] | None = None
    for task in bench.tasks:
        where = f"task {task.task_id}"
        async with bench.stage.opened(world.environment, task, SEED, where=where) as episode:
            _refuse_missing("the episode", episode, _EPISODE)
            tools = dict(episode.tools)
        if first is None:
            first = tools
            bench.tools = _faces(tools, where)
        if tools != first:
            changed = sorted({name for name, _ in set(tools.items()) ^ set(first.items())})
            raise CheckFailedError(
                f"{where}: its tools are not those of task {bench.tasks[0].task_id} ({', '.join(changed)} differ); an "
                "environment has the same tools in every episode"
            )
    names = ", ".join(bench.tools) or "none"
    return f"{len(bench.tools)} tools with valid schemas, the same in {len(bench.tasks)} episodes: {shown(names)}"


def _faces(tools: Mapping[str, str], where: str) -> Mapping[str, ToolFace]:
    for name, text in tools.items():
        if not isinstance(name, str) or not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from outside
            raise CheckFailedError(
                f"{where}: tools are {type(text).__name__} by {type(name).__name__}, not text by name"
            )
    return {name: read_tool(name, text, where) for name, text in tools.items()}


def _refuse_missing(what: str, of: object, needs: Mapping[str, str]) -> None:
    there = set(dir(of))
    missing = [f"{name} ({meaning})" for name, meaning in needs.items() if name not in there]
    if missing:
        raise CheckFailedError(f"{what}, a {type(of).__name__}, has no {', no '.join(missing)}")


def _strata(bench: Bench, world: World) -> tuple[Stratum, ...]:
    bench.stage.at("making the tasks", SLOW_S)
    try:
        strata = tuple(world.tasks(_SIZES, SEED))
    except Exception as error:
        raise CheckFailedError(f"its tasks cannot be made: {describe(error)}") from error
    if not strata:
        raise CheckFailedError("it has no pool of tasks")
    return strata


def _ids(strata: Sequence[Stratum]) -> list[tuple[str, str, str]]:
    return [(t.task_id, t.split, t.payload) for s in strata for t in (*s.train, *s.held_out)]


def _in_turns(strata: Sequence[Stratum]) -> list[Task]:
    """Of each pool and each split in turn."""
    columns = [tasks for stratum in strata for tasks in (stratum.train, stratum.held_out)]
    return [task for row in zip_longest(*columns) for task in row if task is not None]


def _identity(world: World) -> dict[str, object]:
    found: dict[str, object] = {
        "the environment's name": world.environment.name,
        "the environment's revision": world.environment.revision,
        "success_threshold": world.success_threshold,
        "sandbox_profile": world.sandbox_profile,
        "the names of its attacks": sorted(world.attacks),
    }
    for part in world.parts:
        found[f"the revision of verifier {part.verifier.name}"] = part.verifier.revision
        found[f"the weight of verifier {part.verifier.name}"] = part.weight
    return found


async def _refuse_leak(bench: Bench, train: Sequence[Task], held_out: Sequence[Task]) -> None:
    trained_ids = {task.task_id for task in train}
    trained_payloads = {task.payload: task for task in train}
    asked: dict[str, Task] = {}
    for task in train:
        asked.setdefault(_question(task), task)
    for task in held_out:
        if task.task_id in trained_ids:
            raise CheckFailedError(f"task {task.task_id} stands in both splits; a held-out task never trains")
        twin = trained_payloads.get(task.payload) or asked.get(_question(task))
        if twin is None:
            continue
        if twin.payload == task.payload or await _asks_the_same(bench, twin, task):
            raise CheckFailedError(
                f"held-out task {task.task_id} and training task {twin.task_id} ask the same and are solved by the "
                "same turns; a held-out task never trains, under whatever id"
            )


async def _asks_the_same(bench: Bench, one: Task, other: Task) -> bool:
    """Whether two tasks open alike and are solved alike, under their own ids or under one: chance may come from it."""
    if await _opening(bench, one) == await _opening(bench, other):
        return True
    alike = [replace(task, task_id=one.task_id, split=one.split) for task in (one, other)]
    try:
        return await _opening(bench, alike[0]) == await _opening(bench, alike[1])
    except CheckFailedError:
        return False  # It takes no task under another's id.


async def _opening(bench: Bench, task: Task) -> tuple[tuple[Message, ...], str]:
    """What a task opens with, and how it is solved."""
    world = bench.built()
    where = f"task {task.task_id}"
    async with bench.stage.opened(world.environment, task, SEED, where=where) as episode:
        begun = await bench.stage.ask(f"begin of {where}", episode.begin)
    turns = turns_of(world.reference, task, "the reference")
    solved = canonical_json([[t.text, [[c.tool, c.arguments] for c in t.calls]] for t in turns])
    return tuple(m for o in begun.observations for m in o.messages), solved


def _question(task: Task) -> str:
    try:
        return question_key(payload_of(task))
    except TaskError:
        return task.payload
