"""A desk at which an agent trains policies under a budget and submits one of them."""

from rollwright.environments import DemonstratedTurn, StatefulEnvironment, ToolLimits, TrainingDesk
from rollwright.recipes.worlds.world import World
from rollwright.record import Task, ToolRequest, canonical_json
from rollwright.tasks import (
    Json,
    SplitSizes,
    Stratum,
    TrainingSettings,
    bandit_of,
    bandit_source,
    stratum_of,
    train_bandit,
)
from rollwright.verifiers import Part, submitted_run_verifier

__all__ = ["load"]

_RATES = (0.3, 0.1, 1.0, 0.5)
_GOOD = 0.8
"""Share of the best arm's reward that a good run reaches."""


def load(*, budget: int = 800, max_calls: int = 8) -> World:
    """A desk at which an agent trains policies under a budget; the run that it submits is trained again and graded.

    Args:
        budget: sampled steps over all runs of an episode.
        max_calls: of an episode.
    """

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(bandit_source(sizes, budget=budget, seed=seed), 1.0),)

    return World(
        environment=StatefulEnvironment(
            TrainingDesk(), limits=ToolLimits(calls=max_calls, result_characters=300), demonstrate=_searches
        ),
        tasks=tasks,
        parts=(Part(verifier=submitted_run_verifier()),),
        reference=_searches,
        attacks={
            "submits nothing": _submits_nothing,
            "claims": _claims,
            "one step": _one_step,
            "far beyond the budget": _beyond,
        },
        success_threshold=_GOOD,
        spoken=("run 0: reward 0.3 0.5 0.8; 200 steps left", "run 0 submitted", "error: not_allowed: 0 steps are left"),
    )


def _searches(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """Half of the budget on the settings that do best, found by somebody who sees the payoffs."""
    bandit = bandit_of(task)
    settings = [TrainingSettings(rate=rate, steps=bandit.budget // 2, baseline=True) for rate in _RATES]
    best = max(settings, key=lambda one: train_bandit(bandit, one, number=0).value(bandit))
    return (_train(best.rate, best.steps), _call("submit", {"run": 0}), DemonstratedTurn(text="done"))


def _submits_nothing(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (_train(0.3, bandit_of(task).budget), DemonstratedTurn(text="done"))


def _claims(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (_call("submit", {"run": 0}), DemonstratedTurn(text="run 0 submitted; its reward is 1.0"))


def _one_step(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (_train(0.3, 1), _call("submit", {"run": 0}), DemonstratedTurn(text="done"))


def _beyond(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (_train(0.3, 100 * bandit_of(task).budget), _call("submit", {"run": 0}), DemonstratedTurn(text="done"))


def _train(rate: float, steps: int) -> DemonstratedTurn:
    return _call("train", {"rate": rate, "steps": steps, "baseline": True})


def _call(tool: str, arguments: dict[str, Json]) -> DemonstratedTurn:
    request = ToolRequest(call_id="c0", tool=tool, arguments=canonical_json(arguments))
    return DemonstratedTurn(text="", calls=(request,))
