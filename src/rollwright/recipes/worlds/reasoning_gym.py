"""Single-turn problems of the package `reasoning-gym`, scored by its own scorers."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from rollwright.environments import DemonstratedTurn, EnvironmentSetupError, ToolEnvironment
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.keys import closest
from rollwright.recipes.worlds.brought import brought_json
from rollwright.recipes.worlds.world import World
from rollwright.record import Message, Task, digest, seed_of
from rollwright.tasks import (
    Json,
    Payload,
    SplitSizes,
    Stratum,
    TaskSource,
    fill_splits,
    gym_version,
    payload_of,
    stratum_of,
)
from rollwright.verifiers import GymVerifier, Part, ScorerLimits, ScorerPool, gym_pool

__all__ = ["load"]

_INSTRUCTION = "Give the final answer between <answer> and </answer>."
_UNSAID = "(several answers may be right; the generator's scorer decides)"
_REFUSED = {
    "coin_flip": "its scorer pays 0 whatever the probability is",
    "composite": "it mixes other generators and needs them in parameters; name those generators instead",
    "game_of_life_halting": "its scorer pays every text that is not empty",
}
_BLOCK = 16
_BUILDER = 1
"""Of how this module turns an entry into a task; part of the revision."""


def load(
    *,
    generators: str = "basic_arithmetic, leg_counting, spell_backward",
    parameters: str = "",
    instruction: str = _INSTRUCTION,
    score_cpu_s: float = 5.0,
    draw_cpu_s: float = 120.0,
) -> World:
    """Problems of reasoning-gym: the question, one turn, the package's own score of what stands in `<answer>`.

    Args:
        generators: names with commas between, or `all`; each is a source with an equal share.
        parameters: JSON object of generator name to its parameters.
        instruction: of the system turn.
        score_cpu_s: CPU time that scoring one answer may take.
        draw_cpu_s: CPU time that drawing a few problems may take.

    Raises:
        RecipeError: for a generator that there is not.
    """
    settings = brought_json("parameters", parameters)
    wanted = _wanted(generators)
    pool = gym_pool(ScorerLimits(cpu_s=score_cpu_s))
    try:
        names = _known(wanted, settings, pool)
    except RecipeError:
        pool.close()
        raise

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        share = SplitSizes(train=max(1, sizes.train // len(names)), held_out=sizes.held_out // len(names))
        drawn = [_Drawing(name=n, parameters=_of(settings, n), pool=pool, seed=seed, cpu_s=draw_cpu_s) for n in names]
        return tuple(stratum_of(one.source(share), 1.0) for one in drawn)

    return World(
        environment=ToolEnvironment(tools=[], name="reasoning_gym", system_prompt=instruction, demonstrate=_reference),
        tasks=tasks,
        parts=(Part(verifier=GymVerifier(pool=pool)),),
        reference=_reference,
        attacks={"an empty answer": _empty, "the question": _question, "a program": _program},
        close=pool.close,
    )


def _wanted(generators: str) -> tuple[str, ...]:
    """The names that were given; none for all."""
    if generators.strip() == "all":
        return ()
    wanted = tuple(name.strip() for name in generators.split(",") if name.strip())
    if not wanted or len(set(wanted)) != len(wanted):
        raise RecipeError(f"generators={generators!r} must name at least one, and none twice")
    for name in wanted:
        if name in _REFUSED:
            raise RecipeError(f"reasoning-gym's {name} is refused: {_REFUSED[name]}")
    return wanted


def _known(wanted: tuple[str, ...], settings: Mapping[str, Json], pool: ScorerPool) -> tuple[str, ...]:
    """The names, where the package knows them."""
    reply = pool.submit({"names": True}).result()
    if reply.status != "given":
        raise RecipeError(f"reasoning-gym does not start: {reply.status} {reply.value or ''}")
    known = cast("list[str]", reply.value)
    for name in (*wanted, *settings):
        if name not in known:
            near = closest(name, tuple(known), 0.4)
            hint = f" Did you mean {near}?" if near else ""
            raise RecipeError(f"reasoning-gym has no generator {name!r}; it has {len(known)}, `all` takes each.{hint}")
    return wanted or tuple(name for name in known if name not in _REFUSED)


def _of(settings: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    chosen = settings.get(name, {})
    if not isinstance(chosen, Mapping):
        raise RecipeError(f"parameters.{name} must be a JSON object")
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    """One generator, drawn where the scorers run: there sets stand in one order, so equal seeds give equal problems."""

    name: str
    parameters: Mapping[str, Json]
    pool: ScorerPool
    seed: int
    cpu_s: float

    def source(self, sizes: SplitSizes) -> TaskSource:
        """Tasks in their splits."""
        decided = digest([_BUILDER, self.name, self.parameters, self.seed])[:16]
        revision = f"reasoning-gym-{gym_version()}:{decided}"
        return fill_splits(self._payloads(), sizes, name=self.name, revision=revision)

    def _payloads(self) -> Iterator[Payload]:
        for block in itertools.count():
            for entry in self._block(block):
                gold = entry["answer"]
                yield Payload(
                    messages=(Message(role="user", text=str(entry["question"])),),
                    answer=gold if isinstance(gold, str) and gold.strip() else _UNSAID,
                    info={
                        "generator": self.name,
                        "parameters": self.parameters,
                        "entry": {"answer": gold, "metadata": entry["metadata"]},
                    },
                )

    def _block(self, block: int) -> list[Mapping[str, Json]]:
        start = seed_of(self.seed, "reasoning_gym", self.name, block) % 2**31
        request = {"draw": self.name, "parameters": self.parameters, "seed": start, "count": _BLOCK}
        reply = self.pool.submit(request, cpu_s=self.cpu_s).result()
        if reply.status != "given":
            raise RecipeError(
                f"reasoning-gym does not draw from {self.name!r} with {dict(self.parameters)}: {reply.status} "
                f"{reply.value or ''}; mend parameters, or raise draw_cpu_s"
            )
        return cast("list[Mapping[str, Json]]", reply.value)


def _reference(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    gold = payload_of(task).answer
    if gold == _UNSAID:
        raise EnvironmentSetupError(
            f"{task.source} keeps no answer of its own, so nothing can be shown; leave it out of a supervised stage"
        )
    return (DemonstratedTurn(text=f"<answer>{gold}</answer>"),)


def _empty(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="<answer></answer>"),)


def _question(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=f"<answer>{payload_of(task).messages[-1].text}</answer>"),)


def _program(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text="<answer>__import__('os').getpid() or 1</answer>"),)
