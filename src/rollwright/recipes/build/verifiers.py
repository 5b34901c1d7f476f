"""From the verifiers' configuration to a composition."""

from dataclasses import replace
from typing import assert_never, cast

from rollwright.recipes.build.named import VERIFIER, make_named
from rollwright.recipes.config.world import (
    CustomVerifierConfig,
    ExactVerifierConfig,
    FormatVerifierConfig,
    MathVerifierConfig,
    NumericVerifierConfig,
    VerifierConfig,
    VerifierPartConfig,
    WorldVerifierConfig,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.world import World
from rollwright.record import Verifier
from rollwright.tasks import UNDEFINED
from rollwright.verifiers import (
    AnswerRule,
    Composition,
    MathLimits,
    MathPool,
    MathVerifier,
    NumericRule,
    Part,
    Role,
    ThreadedVerifier,
    exact_verifier,
    format_verifier,
    numeric_verifier,
)

_OwnPart = (
    ExactVerifierConfig | NumericVerifierConfig | MathVerifierConfig | FormatVerifierConfig | CustomVerifierConfig
)

__all__ = ["BuiltVerifiers", "answer_form", "build_verifiers"]


class BuiltVerifiers:
    """The composition, and what must be closed after it."""

    def __init__(self, composition: Composition, pools: tuple[MathPool, ...]) -> None:
        """Hold both."""
        self.composition = composition
        self._pools = pools

    def close(self) -> None:
        """End the processes of the verifiers."""
        for pool in self._pools:
            pool.close()


def build_verifiers(config: VerifierConfig, world: World | None = None) -> BuiltVerifiers:
    """All parts with their weights; the first part decides, form is shaping.

    Args:
        config: which parts.
        world: that the environment is of, if any; a part of kind `world` stands for all of its parts.

    Raises:
        RecipeError: for a part of a world where there is none.
    """
    rule = AnswerRule(form=config.answer_form, marker=config.answer_marker)
    pools: list[MathPool] = []
    parts: list[Part] = []
    for part in config.parts:
        if isinstance(part, WorldVerifierConfig):
            parts += _parts_of(world, part.weight)
        else:
            parts.append(Part(verifier=_verifier(part, rule, pools), weight=part.weight, role=_role(part)))
    return BuiltVerifiers(Composition(parts), tuple(pools))


def answer_form(config: VerifierConfig) -> str:
    """How a demonstration writes an answer so that the verifiers find it; `{}` stands for the answer."""
    match config.answer_form:
        case "marker":
            return f"{config.answer_marker} {{}}"
        case "boxed":
            return "\\boxed{{}}"
        case _:
            assert_never(config.answer_form)


def _parts_of(world: World | None, weight: float) -> list[Part]:
    if world is None:
        raise RecipeError(
            "a part of kind 'world' stands for the verifiers of the environment's world, and environment.kind is "
            "another; set environment.kind to 'world' and environment.name, or name the verifiers."
        )
    return [replace(part, weight=part.weight * weight) for part in world.parts]


def _role(config: VerifierPartConfig) -> Role:
    return "shaping" if isinstance(config, FormatVerifierConfig) else "outcome"


def _verifier(config: _OwnPart, rule: AnswerRule, pools: list[MathPool]) -> Verifier:
    match config:
        case ExactVerifierConfig():
            return exact_verifier(rule)
        case NumericVerifierConfig():
            return numeric_verifier(rule, NumericRule(tolerance=config.tolerance, words=(UNDEFINED,)))
        case MathVerifierConfig():
            pools.append(MathPool(MathLimits(cpu_s=config.timeout_s)))
            return MathVerifier(rule=rule, pool=pools[-1])
        case FormatVerifierConfig():
            return format_verifier(rule)
        case CustomVerifierConfig():
            return ThreadedVerifier(cast("Verifier", make_named(config.path, {}, needs=VERIFIER)))
        case _:
            assert_never(config)
