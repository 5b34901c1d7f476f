"""The runs of a level: what each resolves to, how far it has come, and how it comes to its end.

    absent ──train──► cut short ──resume──► whole

What is whole is only read. Every run measures itself: held-out tasks at its start and at its end.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import tomlkit

from rollwright.evidence import RunFolder
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.flat import Plain
from rollwright.recipes.ladder.commands import Commands
from rollwright.recipes.ladder.errors import LadderError
from rollwright.recipes.ladder.plan import Plan, RunSpec, own_recipe
from rollwright.recipes.resolve import Resolved, preset_names, preset_text, resolve, resolve_text
from rollwright.recipes.unread import unread_keys

__all__ = [
    "AskedRecipe",
    "LadderOrder",
    "LadderRun",
    "asked_recipe",
    "bring_to_end",
    "last_step",
    "refuse_another",
    "run_of",
    "start_step",
]

_OWN_GATES = ("gates", "alarms")
"""Sections that a run of the ladder goes without: the level has its own, and what it breaks must come to its end."""
_SHOWN = 3
"""Differences of two recipes that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderOrder:
    """What `ladder` was asked for."""

    folder: Path
    """Of the run folders; it need not exist."""
    recipe: str | None = None
    """None: the level's."""
    settings: tuple[str, ...] = ()
    """On top of the level's."""
    seed: int = 0
    second: str = ""
    """A verifier that is unrelated to the recipe's; empty: the level's, with the level's recipe."""
    at_once: int = 1
    """Runs that train side by side."""
    fault: str = ""
    """Of `faults`; empty: none."""
    lags: tuple[int, ...] = ()
    """Of level 5; empty: the level's."""
    tasks: int | None = None
    """Held-out tasks; None: the level's."""
    updates: int | None = None
    """Steps of RL; None: the recipe's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRun:
    """One run."""

    spec: RunSpec
    seed: int
    path: Path
    recipe: str
    """As `train` takes it."""
    settings: tuple[str, ...]
    """All of them, in order."""
    resolved: Resolved
    fault: str = ""
    """That it trains under, where that is no setting."""

    @property
    def name(self) -> str:
        """As a person reads it."""
        return self.spec.name if len(self.spec.seeds) == 1 else f"{self.spec.name}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRecipe:
    """The recipe that the runs of a level are made from."""

    name: str
    """As `train` takes it."""
    resolved: RecipeConfig
    """With the settings of the order."""


def asked_recipe(plan: Plan, order: LadderOrder) -> AskedRecipe:
    """The recipe of an order, or else of the level, without gates of its own.

    Raises:
        RecipeError: for settings that make no recipe, or that the ladder itself chooses.
    """
    if any(_key(setting) == "run.seed" for setting in order.settings):
        raise RecipeError("run.seed is the ladder's to choose; give --seed.")
    name = _without_gates(order.recipe or own_recipe(plan.recipe), order.folder)
    return AskedRecipe(name=name, resolved=resolve(name, order.settings).recipe)


def run_of(  # noqa: PLR0913 - a run is all of these
    plan: Plan, order: LadderOrder, asked: AskedRecipe, spec: RunSpec, seed: int, start: LadderRun | None
) -> LadderRun:
    """The run of a spec.

    Args:
        plan: of the level.
        order: what was asked for.
        asked: the order's recipe.
        spec: one of the plan's.
        seed: of the run.
        start: the run that it goes on from.

    Raises:
        RecipeError: for settings that make no recipe.
    """
    settings = [f"stages={_stages(asked.resolved, spec)}"]
    replaced = ["stages"]
    if start is not None:
        weights = start.path / "checkpoints" / f"step-{last_step(start.resolved.recipe):06d}"
        settings.append(f'model={{kind="local", path={json.dumps(str(weights))}}}')
        replaced.append("model")
    settings += [*spec.settings, *(() if order.recipe else spec.own)]
    over = [*_asked(order), *(one for one in order.settings if _key(one).partition(".")[0] not in replaced)]
    if over:
        bare = resolve(asked.name, settings).recipe
        settings += [one for one in over if _is_read(one, bare)]
    if spec.stages == "rl" and (second := order.second or ("" if order.recipe else plan.second)):
        settings.append(f"verifier.parts={_with_second(asked.resolved, second)}")
    settings.append(f"run.seed={seed}")
    resolved = resolve(asked.name, settings)
    return LadderRun(
        spec=spec,
        seed=seed,
        path=order.folder / f"{resolved.recipe.run.name}-{spec.name.replace(' ', '-')}-seed{seed}",
        recipe=asked.name,
        settings=tuple(settings),
        resolved=resolved,
    )


def bring_to_end(run: LadderRun, commands: Commands, heard: Callable[[str], None]) -> None:
    """Bring a run to its end, from wherever it stands.

    Args:
        run: its folder may hold nothing, a part of the run, or all of it.
        commands: that run now.
        heard: told in a sentence what is done.

    Raises:
        RecipeError: where the folder holds another run.
        LadderError: where a command failed.
        RunStoppedError: where someone stopped one.
    """
    log = run.path.with_name(f"{run.path.name}.log")
    if not (run.path / "manifest.json").exists():
        heard(f"{run.name}: trains in {run.path}")
        if run.fault:
            commands.run(run.name, ("fault", run.fault, run.recipe, str(run.path), *run.settings), log)
        else:
            words = [word for setting in run.settings for word in ("--set", setting)]
            commands.run(run.name, ("train", run.recipe, *words, "--run-dir", str(run.path), "--json"), log)
        return
    refuse_another(run.path, run.resolved)
    saved = RunFolder.open(run.path).newest_checkpoint().chosen
    if saved is None or saved.step < last_step(run.resolved.recipe):
        heard(f"{run.name}: goes on after step {0 if saved is None else saved.step} in {run.path}")
        commands.run(run.name, ("resume", str(run.path), "--json"), log)


def start_step(recipe: RecipeConfig) -> int:
    """The step behind which RL begins: all warm starts."""
    return sum(stage.steps for stage in recipe.stages if isinstance(stage, SupervisedStageConfig))


def last_step(recipe: RecipeConfig) -> int:
    """The last step of a whole run."""
    has_rl = any(not isinstance(stage, SupervisedStageConfig) for stage in recipe.stages)
    return start_step(recipe) + (recipe.run.steps if has_rl else 0)


def refuse_another(path: Path, resolved: Resolved) -> None:
    """Refuse a folder that holds a run of another recipe.

    Raises:
        RecipeError: naming the first differences.
    """
    found = resolve_text(RunFolder.open(path).recipe_toml, origin=f"run {path.name}").values()
    due = resolved.values()
    if found == due:
        return
    keys = [key for key in sorted(found.keys() | due.keys()) if found.get(key) != due.get(key)]
    listed = "; ".join(f"{key} is {found.get(key)!r} there and {due.get(key)!r} here" for key in keys[:_SHOWN])
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    raise RecipeError(f"{path} holds a run of another recipe ({listed}{more}); give another --runs, or remove it.")


def _without_gates(recipe: str, folder: Path) -> str:
    """The recipe, or the path of a copy of it without gates and alarms, in the folder of the ladder."""
    if recipe in preset_names():
        text = preset_text(recipe)
    elif recipe.endswith(".toml") and Path(recipe).is_file():
        text = Path(recipe).read_text(encoding="utf-8")
    else:
        return recipe
    document = tomlkit.parse(text)
    if not any(section in document for section in _OWN_GATES):
        return recipe
    for section in _OWN_GATES:
        document.pop(section, None)  # pyright: ignore[reportUnknownMemberType] - tomlkit does not type it
    path = folder / f"{Path(recipe).stem}-without-gates.toml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(tomlkit.dumps(document), encoding="utf-8")  # pyright: ignore[reportUnknownMemberType] - likewise
    return str(path)


def _key(setting: str) -> str:
    return setting.partition("=")[0].strip()


def _is_read(setting: str, recipe: RecipeConfig) -> bool:
    """False for what the stages of this run leave unread, such as steps of RL in a supervised run."""
    unread = unread_keys(recipe, {_key(setting): setting})
    return all(one.decided_by != "stages" for one in unread)


def _asked(order: LadderOrder) -> Iterable[str]:
    if order.updates is not None:
        yield f"run.steps={order.updates}"
    if order.tasks is not None:
        yield f"evaluation.tasks={order.tasks}"


def _stages(recipe: RecipeConfig, spec: RunSpec) -> str:
    wanted = [stage for stage in recipe.stages if (stage.kind == "supervised") == (spec.stages == "supervised")]
    if not wanted:
        raise LadderError(
            f"the recipe has no stage of kind {spec.stages!r}, which {spec.name!r} is a run of; add one to it."
        )
    return _inline([cast("Plain", stage.model_dump(mode="json")) for stage in wanted])


def _with_second(recipe: RecipeConfig, second: str) -> str:
    parts = [cast("Plain", part.model_dump(mode="json", exclude_none=True)) for part in recipe.verifier.parts]
    return _inline([*parts, {"kind": "custom", "path": second, "weight": 0.0}])


def _inline(value: Plain | Sequence[Plain]) -> str:
    """As TOML writes it in one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value)
        case Mapping():
            return "{" + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items() if one is not None) + "}"
        case list() | tuple():
            return "[" + ", ".join(_inline(one) for one in value) + "]"
        case _:
            return repr(value)
