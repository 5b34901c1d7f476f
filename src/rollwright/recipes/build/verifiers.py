"""From the verifiers' configuration to a composition."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import assert_never, cast

from rollwright.recipes.build.judges import AnyJudgeConfig, Closing, build_judge
from rollwright.recipes.build.named import VERIFIER, make_named
from rollwright.recipes.build.verifier_parts import AnyPartConfig, build_part
from rollwright.recipes.config.verifier_parts import GateConfig
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

OwnPartConfig = (
    ExactVerifierConfig
    | NumericVerifierConfig
    | MathVerifierConfig
    | FormatVerifierConfig
    | CustomVerifierConfig
    | AnyPartConfig
    | AnyJudgeConfig
)

__all__ = ["BuiltVerifiers", "Closing", "answer_form", "build_verifier", "build_verifiers"]


class BuiltVerifiers:
    """The composition, and what must be closed after it."""

    def __init__(self, composition: Composition, stack: ExitStack) -> None:
        """Hold both."""
        self.composition = composition
        self._stack = stack

    def close(self) -> None:
        """End the processes of the verifiers, their sandboxes, and the engines of judges."""
        self._stack.close()


def build_verifiers(config: VerifierConfig, world: World | None = None) -> BuiltVerifiers:
    """All parts with their weights; the first part decides, form is shaping.

    Args:
        config: which parts.
        world: that the environment is of, if any; a part of kind `world` stands for all of its parts.

    Raises:
        RecipeError: for a part of a world where there is none.
    """
    rule = AnswerRule(form=config.answer_form, marker=config.answer_marker)
    parts: list[Part] = []
    with ExitStack() as stack:
        for part in config.parts:
            if isinstance(part, WorldVerifierConfig):
                parts += _parts_of(world, part.weight)
                continue
            closers: list[Closing] = []
            stack.callback(_close_all, closers)
            parts.append(Part(verifier=build_verifier(part, rule, closers), weight=part.weight, role=_role(part)))
        composition = Composition(parts)
        return BuiltVerifiers(composition, stack.pop_all())


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


def _close_all(closers: Sequence[Closing]) -> None:
    for closer in closers:
        closer.close()


def _role(config: VerifierPartConfig) -> Role:
    match config:
        case FormatVerifierConfig():
            return "shaping"
        case GateConfig():
            return config.role
        case _:
            return "outcome"


def build_verifier(config: OwnPartConfig, rule: AnswerRule, closers: list[Closing]) -> Verifier:
    """The verifier of one part that is not of a world.

    Args:
        config: of the part.
        rule: where answers stand.
        closers: gets what must be closed after the verifier.
    """
    match config:
        case ExactVerifierConfig() | NumericVerifierConfig() | FormatVerifierConfig():
            return _simple(config, rule)
        case MathVerifierConfig():
            pool = MathPool(MathLimits(cpu_s=config.timeout_s))
            closers.append(pool)
            return MathVerifier(rule=rule, pool=pool)
        case CustomVerifierConfig():
            return ThreadedVerifier(cast("Verifier", make_named(config.path, {}, needs=VERIFIER)))
        case _:
            if isinstance(config, AnyJudgeConfig):
                return build_judge(config, rule, closers)
            return build_part(config, rule, closers)


def _simple(config: ExactVerifierConfig | NumericVerifierConfig | FormatVerifierConfig, rule: AnswerRule) -> Verifier:
    match config:
        case ExactVerifierConfig():
            return exact_verifier(rule)
        case NumericVerifierConfig():
            return numeric_verifier(rule, NumericRule(tolerance=config.tolerance, words=(UNDEFINED,)))
        case FormatVerifierConfig():
            return format_verifier(rule)
        case _:
            assert_never(config)
