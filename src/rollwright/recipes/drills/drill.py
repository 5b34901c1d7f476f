"""Drills one recipe: for each fault a run that is struck, the resume where it stopped, and the account."""

import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence import EvidenceError, StoredRun
from rollwright.recipes.build.world import build_world
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.drills.account import Account, Due, account_of
from rollwright.recipes.drills.faults import Fault, Outcome, chosen_faults, damage, why_not
from rollwright.recipes.drills.hearing import Hearing
from rollwright.recipes.drills.rig import Alteration, DrillOrder, run_struck, unaltered
from rollwright.recipes.drills.smallness import small_settings
from rollwright.recipes.drills.strikes import InjectedFaultError
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved, recipe_toml, resolve, resolve_text
from rollwright.recipes.runs import resume_run
from rollwright.runtime.errors import RuntimeRunError

__all__ = ["DrillReport", "DrillsOrder", "drill", "drill_fault"]

_PRELOADED = (
    "rollwright.recipes.drills.drill",
    "rollwright.learner.causal_learner",
    "rollwright.engines.embedded.opening",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillsOrder:
    """What `drill` was asked for."""

    recipe: str
    settings: Sequence[str]
    """On top of those that make it small."""
    faults: str
    """`all`, or names with commas between them."""
    seed: int
    folder: Path
    """Of the run folders, one a fault; it need not exist."""
    limit_s: float = 120.0
    """Of one struck run."""
    alter: Alteration = unaltered


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """How one fault went."""

    fault: Fault
    seed: int
    skipped: str | None
    """Why the recipe cannot be struck by it."""
    hits: int
    outcome: str
    """What the run did, in a sentence."""
    account: Account | None
    wrong: tuple[str, ...]
    seconds: float

    @property
    def has_failed(self) -> bool:
        """True where something that must hold did not."""
        return bool(self.wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Struck:
    outcome: Outcome
    sentence: str
    hits: int
    misses: int = 0
    """Times at which the fault found nothing to break."""
    wrong: tuple[str, ...] = ()


def drill(order: DrillsOrder) -> Iterator[DrillReport]:
    """One report a fault, as they come.

    Raises:
        RecipeError: for a fault that is none, a recipe that cannot be run, or a folder that holds runs already.
    """
    faults = chosen_faults(order.faults)
    base = _small(order).recipe
    has_sandboxes = any(fault.needs == "sandboxes" for fault in faults) and _has_sandboxes(base)
    for fault in faults:
        because = why_not(fault, base, has_sandboxes=has_sandboxes)
        if because is not None:
            yield DrillReport(
                fault=fault,
                seed=order.seed,
                skipped=because,
                hits=0,
                outcome="was not run",
                account=None,
                wrong=(),
                seconds=0.0,
            )
        else:
            yield drill_fault(order, fault)


def drill_fault(order: DrillsOrder, fault: Fault) -> DrillReport:
    """Strike one run and account for it.

    Raises:
        RecipeError: for a recipe that cannot be run, or where the run's folder is taken.
    """
    began = time.monotonic()
    resolved = _small(order, *fault.settings)
    path = order.folder / f"{fault.name}-seed{order.seed}"
    if path.exists():
        raise RecipeError(f"{path} is there already; give another --run-dir, or remove it.")
    one = DrillOrder(resolved=resolved, fault=fault, seed=order.seed, path=path, alter=order.alter)
    is_killed = "is_killed" in fault.outcomes
    struck = _struck_in_child(one, order.limit_s) if is_killed else _struck_here(one, order.limit_s)
    wrong = list(struck.wrong)
    if struck.outcome not in fault.outcomes:
        allowed = " or ".join(sorted(fault.outcomes)).replace("_", " ")
        wrong.append(f"the run {struck.outcome.replace('_', ' ')} ({struck.sentence}); it should be that it {allowed}")
    if struck.hits == 0 and struck.misses == 0:
        wrong.append("the fault never struck, so nothing was proved")
    heard = [struck.sentence]
    if struck.outcome != "goes_on":
        resumed = _resumed(one)
        wrong += resumed.wrong
        heard.append(resumed.sentence)
    account: Account | None = None
    if not any(text.startswith(_UNREADABLE) for text in wrong):
        account = account_of(path, _due(resolved.recipe))
        wrong += [*account.wrong, *_missing_steps(path, resolved.recipe)]
    if fault.says and not any(fault.says in sentence for sentence in heard):
        wrong.append(f"nothing said {fault.says!r}")
    return DrillReport(
        fault=fault,
        seed=order.seed,
        skipped=None if struck.hits or wrong else _idle(struck.misses),
        hits=struck.hits,
        outcome="; ".join(sentence for sentence in heard if sentence),
        account=account,
        wrong=tuple(wrong),
        seconds=time.monotonic() - began,
    )


def _idle(misses: int) -> str:
    return f"nothing that it kills was running at any of the {misses} moments at which it was to strike"


_UNREADABLE = "resume did not bring it to its end"


def _struck_here(order: DrillOrder, limit_s: float) -> _Struck:
    hearing = Hearing()
    try:
        run_struck(order, hearing, limit_s)
    except (RuntimeRunError, EvidenceError, InjectedFaultError) as error:
        return _told("stops", f"stopped: {error}", hearing)
    except BaseExceptionGroup as group:
        first = _first_of(group)
        is_said = isinstance(first, RuntimeRunError | EvidenceError | InjectedFaultError)
        wrong = () if is_said else (f"the run ended in {type(first).__name__}: {first}",)
        return _told("stops", f"stopped: {first}", hearing, wrong)
    except RecipeError:
        raise
    except Exception as error:  # noqa: BLE001 - a drill reports what a run ends in, and a bug is what it looks for
        return _told("stops", "stopped by an error", hearing, (f"the run ended in {type(error).__name__}: {error}",))
    return _told("goes_on", "went on", hearing)


def _told(outcome: Outcome, sentence: str, hearing: Hearing, wrong: tuple[str, ...] = ()) -> _Struck:
    return _Struck(
        outcome=outcome, sentence=_joined(sentence, hearing), hits=hearing.hits, misses=hearing.misses, wrong=wrong
    )


def _joined(sentence: str, hearing: Hearing) -> str:
    return "; ".join([sentence, *dict.fromkeys(hearing.sentences)])


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first_of(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType] - a group's type is not known


def _struck_in_child(order: DrillOrder, limit_s: float) -> _Struck:
    """A fault that ends the process strikes one of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    text = recipe_toml(order.resolved.recipe)
    arguments = (text, order.fault.name, order.seed, str(order.path), limit_s)
    process = context.Process(target=_child, args=arguments, name=f"drill {order.fault.name}")
    process.start()
    process.join(limit_s + 60.0)
    if process.is_alive():
        process.kill()
        process.join()
        return _Struck(outcome="is_killed", sentence="was killed", hits=0, wrong=(f"it ran for {limit_s:g} s",))
    if process.exitcode == -signal.SIGKILL:
        return _Struck(outcome="is_killed", sentence="was killed", hits=1)
    return _Struck(outcome="goes_on", sentence=f"ended with exit code {process.exitcode}", hits=0)


def _child(text: str, name: str, seed: int, path: str, limit_s: float) -> None:
    (fault,) = chosen_faults(name)
    order = DrillOrder(resolved=resolve_text(text, origin="drill"), fault=fault, seed=seed, path=Path(path))
    run_struck(order, Hearing(), limit_s)


def _resumed(order: DrillOrder) -> _Struck:
    """Bring a stopped run to its end by the ordinary way."""
    hearing = Hearing()
    damaged = damage(order.path, order.fault.damage)
    if damaged is not None and order.fault.damage == "cut_shard":
        file, content = damaged
        try:
            resume_run(order.path, hearing)
        except EvidenceError as error:
            hearing.warned(f"resume refused it: {error}")
            file.write_bytes(content)
        else:
            return _Struck(outcome="goes_on", sentence="", hits=0, wrong=("resume took a run whose file was cut",))
    try:
        resume_run(order.path, hearing)
    except Exception as error:  # noqa: BLE001 - whatever it was, the run did not go on
        wrong = (f"{_UNREADABLE}: {type(error).__name__}: {error}",)
        return _Struck(outcome="stops", sentence="", hits=0, wrong=wrong)
    return _Struck(outcome="goes_on", sentence=_joined("resume brought it to its end", hearing), hits=0)


def _small(order: DrillsOrder, *settings: str) -> Resolved:
    """The recipe made small; what a person sets comes last and stands."""
    base = resolve(order.recipe, order.settings).recipe
    seeded = (*small_settings(base), f"run.seed={order.seed}", *settings, *order.settings)
    return resolve(order.recipe, seeded)


def _due(recipe: RecipeConfig) -> Due:
    return Due(
        group_size=recipe.rollout.group_size,
        batch_slots=recipe.rollout.batch_size,
        max_lag=recipe.runtime.max_lag,
        rl_steps=recipe.run.steps,
    )


def _missing_steps(path: Path, recipe: RecipeConfig) -> Iterator[str]:
    stages = [s.steps if isinstance(s, SupervisedStageConfig) else recipe.run.steps for s in recipe.stages]
    due = tuple(range(sum(stages) + 1))
    found = StoredRun(path).steps
    if found != due:
        yield f"the run holds the steps {found}; 0 to {due[-1]} are due"


def _has_sandboxes(recipe: RecipeConfig) -> bool:
    world = build_world(recipe)
    try:
        return world.sandbox_profile is not None
    finally:
        world.close()
