"""A world: an environment with its tasks, its verifiers, and the agents that try it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rollwright.environments import DemonstratedTurn, DemonstrateFn
from rollwright.record import Environment, Task
from rollwright.tasks import SplitSizes, Stratum
from rollwright.verifiers import Part

__all__ = ["World", "WorldTasksFn", "null_agent"]

WorldTasksFn = Callable[[SplitSizes, int], tuple[Stratum, ...]]
"""(sizes, seed) to pools of tasks (`stratum_of(source, weight)` makes one): equal arguments give equal tasks."""


def null_agent(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """Says nothing and calls nothing; no verifier may pay it."""
    return (DemonstratedTurn(text=""),)


def _nothing() -> None:
    """Nothing to close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What `environment.kind = "world"` names: a callable `package.module:name` that returns one of these."""

    environment: Environment
    tasks: WorldTasksFn
    parts: tuple[Part, ...]
    """Verifiers with weights and roles."""
    reference: DemonstrateFn
    """Solves every task: earns the success threshold."""
    attacks: Mapping[str, DemonstrateFn] = field(default_factory=dict[str, DemonstrateFn])
    """Agents that try to be paid without solving; each earns less than the threshold, by name."""
    success_threshold: float = 1.0
    sandbox_profile: str | None = None
    """`Sandboxes.profile_id`, where programs run."""
    max_open: int | None = None
    """Episodes that can be open at once, where each holds something scarce such as a sandbox; None: no bound."""
    spoken: tuple[str, ...] = ()
    """Phrases of its observations, for a tokenizer that is trained on the spot."""
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Domain to the names of its tools, where they are many; empty: the tools are of one domain."""
    server: str = ""
    """Where the server is that its episodes ask; a run puts a breaker before it. Empty: all of it runs here."""
    snapshot: str = ""
    """A digest of an index that its episodes search; "unknown" where they look up what nobody froze. Empty: nothing."""
    close: Callable[[], None] = _nothing
    """Ends what it started. Called once, after all episodes."""
