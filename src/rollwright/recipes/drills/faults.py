"""The table of faults: what each does, and what must hold in spite of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rollwright.evidence import RunFolder
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.drills.kinds import EngineFault, EnvironmentFault, LearnerFault, VerifierFault
from rollwright.recipes.drills.machine import cut_file
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.keys import closest

__all__ = ["FAULTS", "Damage", "Fault", "Outcome", "chosen_faults", "damage", "why_not"]

Outcome = Literal["goes_on", "stops", "is_killed"]
"""What the run does under the fault: comes to its end, stops with a sentence, or is gone. In the last two cases
`resume` must bring it to its end."""
Damage = Literal["none", "cut_checkpoint", "cut_shard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row."""

    name: str
    does: str
    holds: str
    outcomes: frozenset[Outcome]
    engine: EngineFault | None = None
    environment: EnvironmentFault | None = None
    verifier: VerifierFault | None = None
    learner: LearnerFault = "none"
    delivery: Literal["once", "twice"] = "once"
    clock: Literal["steady", "steps"] = "steady"
    stops_at: int | None = None
    """RL step after which someone asks the run to stop, so that it is resumed."""
    damage: Damage = "none"
    """Done to the folder before it is resumed."""
    first: int = 1
    """Event that is struck first; the seed adds up to `spread`."""
    spread: int = 4
    every: int = 0
    most: int = 1
    needs: Literal["nothing", "sandboxes", "workers"] = "nothing"
    """What a recipe must have for it."""
    settings: tuple[str, ...] = ()
    """Of the recipe, so that the fault passes in seconds."""
    says: str = ""
    """Stands in what is told of it."""


_GOES_ON = frozenset[Outcome]({"goes_on"})
_STOPS = frozenset[Outcome]({"stops"})
_KILLED = frozenset[Outcome]({"is_killed"})
_EITHER = frozenset[Outcome]({"goes_on", "stops"})
_MADE_AGAIN = "engine was made again"
_RETRIED = "its episodes are retried in their slots, and the run goes on with the last published weights"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="engine_dies",
        does="ends the engine's thread in mid-turn",
        holds=_RETRIED,
        outcomes=_GOES_ON,
        engine="dies",
        says=_MADE_AGAIN,
    ),
    Fault(
        name="engine_hangs",
        does="lets the engine answer nothing any more",
        holds=_RETRIED,
        outcomes=_GOES_ON,
        engine="hangs",
        says=_MADE_AGAIN,
    ),
    Fault(
        name="engine_dies_loading",
        does="ends the engine's thread while it takes new weights",
        holds="another engine takes them",
        outcomes=_GOES_ON,
        engine="dies_loading",
        spread=2,
        says=_MADE_AGAIN,
    ),
    Fault(
        name="half_written_weights",
        does="publishes weights that are not what their manifest says",
        holds="the engine refuses them, the run stops and names it, and resume goes on",
        outcomes=_STOPS,
        engine="half_written",
        spread=2,
        says="did not take the weights",
    ),
    Fault(
        name="stale_weights",
        does="lets the engine keep the old weights and say that it took the new ones",
        holds="the first token of an old version is noticed, and another engine serves the new one",
        outcomes=_GOES_ON,
        engine="keeps_old_weights",
        spread=2,
        says="draws from version",
    ),
    Fault(
        name="turn_lost",
        does="loses the last message of some turns",
        holds="the episodes are retried, and a slot that failed for good is counted as failed",
        outcomes=_GOES_ON,
        engine="loses_the_end_of_a_turn",
        every=5,
        most=4,
    ),
    Fault(
        name="learner_dies",
        does="ends the learner behind an update that nothing recorded yet",
        holds="the run stops, and resume makes the step again",
        outcomes=_STOPS,
        learner="dies",
        spread=2,
    ),
    Fault(
        name="learner_hangs",
        does="lets the learner not come back from an update",
        holds="the run stops with a diagnosis that names the learner, and resume makes the step again",
        outcomes=_STOPS,
        learner="hangs",
        spread=2,
        says="learner has given no sign",
    ),
    Fault(
        name="verifier_raises",
        does="raises in every third call of a verifier",
        holds="the episodes are unscored: no reward, no weight",
        outcomes=_GOES_ON,
        verifier="raises",
        every=3,
        most=1000,
    ),
    Fault(
        name="verifier_hangs",
        does="lets some calls of a verifier never end",
        holds="the deadline ends them, and the episodes are unscored",
        outcomes=_GOES_ON,
        verifier="hangs",
        every=4,
        most=4,
    ),
    Fault(
        name="verifier_down",
        does="refuses every call of a verifier for a while",
        holds="after some refusals nobody asks it until it is back, and no refusal is a score",
        outcomes=_GOES_ON,
        verifier="is_down",
        most=6,
        says="answers again",
    ),
    Fault(
        name="verifier_worker_dies",
        does="kills the processes of the verifiers",
        holds="they are started again, and the call is asked once more or unscored",
        outcomes=_GOES_ON,
        verifier="loses_processes",
        every=5,
        most=3,
        needs="workers",
    ),
    Fault(
        name="sandbox_dies",
        does="kills the sandboxes of running episodes",
        holds="the program is lost, or its episode is retried; others are not touched",
        outcomes=_GOES_ON,
        environment="loses_processes",
        every=5,
        most=3,
        needs="sandboxes",
    ),
    Fault(
        name="tools_slow",
        does="answers each turn a tenth of a second later",
        holds="nothing but time is lost",
        outcomes=_GOES_ON,
        environment="slow",
        most=1000,
    ),
    Fault(
        name="tools_fail",
        does="breaks every third answer of the tools and the environment",
        holds="the episodes are retried, and a slot that failed for good is counted as failed",
        outcomes=_GOES_ON,
        environment="fails",
        every=3,
        most=1000,
    ),
    Fault(
        name="environment_hangs",
        does="lets some answers of the environment never come",
        holds="the wall clock ends the episodes, and they are retried",
        outcomes=_GOES_ON,
        environment="hangs",
        every=4,
        most=3,
        settings=("rollout.wall_clock_s=2.0",),
    ),
    Fault(
        name="delivered_twice",
        does="hands a trained group to the learner a second time",
        holds="the second delivery is refused and nothing of it is recorded; the run goes on, or resume does",
        outcomes=_EITHER,
        delivery="twice",
        spread=2,
    ),
    Fault(
        name="run_killed",
        does="kills the whole run in mid-episode",
        holds="resume goes on from the last saved step",
        outcomes=_KILLED,
        engine="kills_the_run",
        spread=40,
    ),
    Fault(
        name="killed_while_saving",
        does="kills the whole run while it writes a checkpoint",
        holds="resume goes on from the checkpoint before",
        outcomes=_KILLED,
        learner="kills_the_run_while_saving",
        spread=3,
    ),
    Fault(
        name="disk_full",
        does="lets the disk have no room for a step",
        holds="the run stops and says so, nothing of the step stays, and resume makes it again",
        outcomes=_STOPS,
        learner="fills_the_disk",
        spread=2,
        says="make room",
    ),
    Fault(
        name="checkpoint_cut",
        does="cuts the largest file of the newest checkpoint of a stopped run",
        holds="the checkpoint does not count, and resume goes on from the one before",
        outcomes=_STOPS,
        stops_at=2,
        damage="cut_checkpoint",
        says="does not count",
    ),
    Fault(
        name="shard_cut",
        does="cuts a committed file of a stopped run",
        holds="resume refuses the folder until the file is put back",
        outcomes=_STOPS,
        stops_at=2,
        damage="cut_shard",
    ),
    Fault(
        name="clock_steps",
        does="sets the clock back an hour, and forward a day",
        holds="nothing waits for the time of day, and the account is the same",
        outcomes=_GOES_ON,
        clock="steps",
        every=3,
        most=2,
    ),
)


def chosen_faults(names: str) -> tuple[Fault, ...]:
    """`all`, or names with commas between them.

    Raises:
        RecipeError: for a name that is none, with the nearest.
    """
    if names == "all":
        return FAULTS
    by_name = {fault.name: fault for fault in FAULTS}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in by_name:
            near = closest(name, tuple(by_name), 0.4)
            hint = f" Did you mean {near}?" if near else ""
            raise RecipeError(f"no fault {name!r}; there are all, {', '.join(by_name)}.{hint}")
    if not wanted:
        raise RecipeError(f"no fault is named; give all, or some of {', '.join(by_name)}.")
    return tuple(by_name[name] for name in dict.fromkeys(wanted))


def why_not(fault: Fault, recipe: RecipeConfig, *, has_sandboxes: bool) -> str | None:
    """Why a recipe cannot be struck by a fault; None where it can."""
    if fault.needs == "sandboxes" and not has_sandboxes:
        return "the recipe's environment runs nothing in a sandbox"
    kinds = {part.kind for part in recipe.verifier.parts}
    if fault.needs == "workers" and "math" not in kinds:
        return f"the recipe's verifiers ({', '.join(sorted(kinds))}) have no processes of their own"
    return None


def damage(path: Path, what: Damage) -> tuple[Path, bytes] | None:
    """Damage a stopped run's folder; gives back the file and what it held, None where nothing is to be damaged."""
    if what == "none":
        return None
    folder = RunFolder.open(path)
    if what == "cut_checkpoint":
        newest = folder.newest_checkpoint().chosen
        assert newest is not None, "a stopped run has a checkpoint"
        largest = max((p for p in newest.path.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        return largest, cut_file(largest)
    shard = folder.path / folder.commits[-1].shards[0].path
    return shard, cut_file(shard)
