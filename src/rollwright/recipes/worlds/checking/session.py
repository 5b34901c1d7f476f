"""The checks of a world, one after the other, each with its outcome."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from types import MappingProxyType

from rollwright.recipes.worlds.checking import building, judging, leaving, mistakes, repeating, states
from rollwright.recipes.worlds.checking.bench import Bench
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, CheckHungError, CheckOutcome, shown
from rollwright.recipes.worlds.checking.stage import describe

__all__ = ["CHECKS", "facts", "run_checks"]

CheckFn = Callable[[Bench], Awaitable[str]]
CHECKS: Mapping[str, CheckFn] = MappingProxyType(
    {
        "builds": building.builds,
        "protocol": building.has_protocol,
        "tasks": building.has_tasks,
        "identity": building.is_stable,
        "tools": building.offers_tools,
        "episodes": repeating.plays,
        "reference": judging.pays_the_reference,
        "null agent": judging.pays_nobody_for_nothing,
        "attacks": judging.pays_no_attack,
        "verdicts": judging.repeats_verdicts,
        "state hash": states.hashes_states,
        "replay": repeating.plays_elsewhere,
        "again": repeating.plays_again,
        "together": repeating.plays_together,
        "snapshot": states.snapshots,
        "end": states.ends_once,
        "bad calls": mistakes.answers_bad_calls,
        "bad turns": mistakes.answers_bad_turns,
        "bad tasks": mistakes.refuses_bad_tasks,
        "limits": mistakes.declares_limits,
        "leaving": leaving.leaves_well,
        "cancelling": leaving.leaves_nothing,
        "throughput": leaving.measures_speed,
        "closing": leaving.closes,
    }
)
"""Name to check, in the order in which they run; a later one may build on an earlier one."""
_FIRST = ("builds", "protocol", "tasks", "tools", "episodes")
"""Where one of these fails, what follows has nothing to stand on."""
_LAST = "closing"


async def run_checks(bench: Bench, started: Callable[[str], None]) -> AsyncGenerator[CheckOutcome]:
    """Run every check.

    Args:
        bench: with what makes the world.
        started: told the name of each check before it runs.
    """
    cause: str | None = None
    for name, check in CHECKS.items():
        if name == "replay" and bench.elsewhere is None:
            continue
        if cause is not None and (name != _LAST or bench.world is None):
            yield CheckOutcome(name=name, status="skipped", sentence=f"not checked, because {cause}")
            continue
        started(name)
        outcome, has_hung = await _settle(name, check, bench)
        yield outcome
        if has_hung:
            cause = f"the check {name} waited in vain"
        elif outcome.status == "failed" and name in _FIRST:
            cause = f"the check {name} failed"


async def facts(bench: Bench) -> Mapping[str, object]:
    """What the world's episodes say in this process, for comparison; a failure under `error`."""
    try:
        for name in ("builds", "tasks", "tools"):
            await CHECKS[name](bench)
        return await repeating.facts_of(bench)
    except CheckFailedError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - a world from outside may raise anything
        return {"error": describe(error)}


async def _settle(name: str, check: CheckFn, bench: Bench) -> tuple[CheckOutcome, bool]:
    """The outcome of one check, and whether it hung; whatever the world raises becomes a sentence."""
    try:
        return CheckOutcome(name=name, status="passed", sentence=await check(bench)), False
    except CheckFailedError as error:
        return CheckOutcome(name=name, status="failed", sentence=str(error)), isinstance(error, CheckHungError)
    except Exception as error:  # noqa: BLE001 - a world from outside may raise anything
        return CheckOutcome(name=name, status="failed", sentence=f"it raised {shown(describe(error))}"), False
    except SystemExit as error:
        return CheckOutcome(name=name, status="failed", sentence=f"it gave up: {describe(error)}"), False
