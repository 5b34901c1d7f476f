"""A clinic with over a hundred tools in ten domains, judged by its records at the end."""

from rollwright.environments import (
    ClinicScenario,
    DemonstratedTurn,
    StatefulEnvironment,
    ToolLimits,
    WorkplaceDemonstrator,
    planned_calls,
)
from rollwright.recipes.worlds.world import World
from rollwright.record import Task, ToolRequest, canonical_json
from rollwright.tasks import DEPARTMENTS, SplitSizes, Stratum, clinic_strata, payload_of, read_tables, slice_of
from rollwright.verifiers import Part, final_state_verifier, tool_use_verifier

__all__ = ["load"]


def load(*, domains: str = ",".join(DEPARTMENTS), right_share: float = 0.5, max_calls: int = 8) -> World:
    """A clinic of ten departments with 120 tools, judged by its records at the end.

    Args:
        domains: which departments there are, with commas between them; each has twelve tools.
        right_share: share of the demonstrations that carry the request out.
        max_calls: of an episode.
    """
    chosen = tuple(name.strip() for name in domains.split(","))
    scenario = ClinicScenario(chosen)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return clinic_strata(sizes, departments=chosen, seed=seed)

    return World(
        environment=StatefulEnvironment(
            scenario,
            limits=ToolLimits(calls=max_calls, result_characters=400),
            demonstrate=WorkplaceDemonstrator(right_share=right_share),
        ),
        tasks=tasks,
        parts=(
            Part(verifier=final_state_verifier()),
            Part(verifier=tool_use_verifier(), weight=0.0, role="shaping"),
        ),
        reference=WorkplaceDemonstrator(right_share=1.0),
        attacks={"says done": _says_done, "does more than was asked": _and_more, "asks every domain": _asks_all},
        domains=scenario.domains,
        spoken=("prescription 482: patient 7, dose 12, amir, open", "error: not_found: no scan 999", "none"),
    )


def _says_done(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="Done. The records are as asked; the final state equals the target."),)


def _and_more(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """What was asked, and two records marked as done beside it."""
    keys = sorted(read_tables(payload_of(task).info.get("initial"))[DEPARTMENTS[slice_of(task)].table].rows)
    tool = f"{slice_of(task)}_finish"
    beside = tuple(ToolRequest(call_id="c0", tool=tool, arguments=canonical_json({"key": key})) for key in keys[:2])
    return (DemonstratedTurn(text="", calls=(*planned_calls(task), *beside)), DemonstratedTurn(text="done"))


def _asks_all(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    calls = tuple(ToolRequest(call_id="c0", tool=f"{name}_list", arguments="{}") for name in DEPARTMENTS)
    return (DemonstratedTurn(text="", calls=calls), DemonstratedTurn(text="done"))
