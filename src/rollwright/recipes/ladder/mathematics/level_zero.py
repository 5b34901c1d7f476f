"""Level 0: fixtures, equations, finite differences and the round trip, then the same with a wrong denominator."""

import time
from collections.abc import Callable, Sequence

from rollwright.algorithms.presets.table import PRESETS
from rollwright.evaluation.gates import judge
from rollwright.recipes.fixtures.families import load_adapters
from rollwright.recipes.fixtures.reading import shipped_fixtures
from rollwright.recipes.fixtures.running import run_fixtures
from rollwright.recipes.ladder.mathematics.equations import CHECKS, Equation, wrong_by_one
from rollwright.recipes.ladder.mathematics.round_trip import drawn_trajectories, round_trip_faults
from rollwright.recipes.ladder.mathematics.rows import Rewrite, unchanged
from rollwright.recipes.ladder.mathematics.slopes import TERMS, Slopes, slopes_of, slopes_of_term
from rollwright.recipes.ladder.plan import Limit
from rollwright.recipes.ladder.report import LadderVerdict, LevelReport, Table
from rollwright.record.gates import Measured

__all__ = ["climb_mathematics"]

_TITLE = "Do hand calculation, equation and code agree, and do tokens and masks come back as they went?"
_SCALE = (
    "The documented build: fixtures of every method, groups, denominators, clips, ratios, masks and ends by hand, "
    "finite differences of every preset and of the terms beside it, trajectories through the codec and Parquet."
)
_EXACTLY = "survey section 10, level 0: they agree at the chosen precision, and what is masked is exactly 0"
_NUM_TRAJECTORIES = 200
_SHOWN = 3


def climb_mathematics(heard: Callable[[str], None], *, fault: str = "") -> LevelReport:
    """Work it all out; nothing is kept from an earlier climb, for it takes seconds.

    Args:
        heard: told in a sentence what is done.
        fault: `wrong_denominator`, or empty.
    """
    began = time.monotonic()
    heard("fixtures, equations, finite differences and the round trip of trajectories")
    outcomes = run_fixtures(shipped_fixtures(), load_adapters())
    equations = _worked_out(wrong_by_one if fault else unchanged)
    noticed = [one for one in _worked_out(wrong_by_one) if not one.holds]
    slopes = [*(slopes_of(name) for name in PRESETS), *(slopes_of_term(name) for name in TERMS)]
    lost = round_trip_faults(drawn_trajectories(_NUM_TRAJECTORIES))
    verdicts = (
        _none("fixtures", [one.fixture.id for one in outcomes if not one.has_passed], len(outcomes)),
        _none("equations", [one.what for one in equations if not one.holds], len(equations)),
        _none("finite_differences", [one.preset for one in slopes if not one.agree], len(slopes)),
        _none("round_trip", lost, _NUM_TRAJECTORIES),
        _some("wrong_denominator_noticed", [one.what for one in noticed], len(equations)),
    )
    return LevelReport(
        level=0,
        title=_TITLE,
        scale=_SCALE,
        verdicts=verdicts,
        tables=(_by_hand(equations), _differences(slopes)),
        fault=fault,
        seconds=time.monotonic() - began,
    )


def _worked_out(rewrite: Rewrite) -> list[Equation]:
    return [one for check in CHECKS.values() for one in check(rewrite)]


def _none(name: str, wrong: Sequence[str], num_items: int) -> LadderVerdict:
    limit = Limit(measure=name, bound="at_most", limit=0, label="D", source=f"number that is wrong; {_EXACTLY}")
    return _verdict(limit, wrong, num_items, "what is wrong")


def _some(name: str, wrong: Sequence[str], num_items: int) -> LadderVerdict:
    source = "equations that a deliberately wrong denominator breaks; survey section 10, level 0: it makes a test fail"
    limit = Limit(measure=name, bound="at_least", limit=1, label="D", source=source)
    return _verdict(limit, wrong, num_items, "equations that do not hold with one token too many in the denominator")


def _verdict(limit: Limit, wrong: Sequence[str], num_items: int, what: str) -> LadderVerdict:
    listed = f": {'; '.join(wrong[:_SHOWN])}" if wrong else ""
    measured = Measured(value=float(len(wrong)), num_items=num_items, source=f"{what}{listed}")
    return LadderVerdict(run="", limit=limit, verdict=judge(limit.measure, limit.as_bound, measured))


def _by_hand(equations: Sequence[Equation]) -> Table:
    rows = tuple((one.what, f"{one.due:.12g}", f"{one.found:.12g}") for one in equations)
    return Table(title="By hand and by code", header=("what", "by hand", "by code"), rows=rows)


def _differences(slopes: Sequence[Slopes]) -> Table:
    rows = tuple((one.preset, str(one.num_places), str(one.num_kinks), f"{one.farthest:.1e}") for one in slopes)
    header = ("objective or term", "places", "kinks left out", "largest distance")
    return Table(title="Gradients against finite differences, float64", header=header, rows=rows)
