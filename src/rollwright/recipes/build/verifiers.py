"""From the verifiers' configuration to a composition."""

from typing import assert_never, cast

from rollwright.recipes.build.environment import VERIFIER, make_named
from rollwright.recipes.config.world import (
    CustomVerifierConfig,
    ExactVerifierConfig,
    FormatVerifierConfig,
    MathVerifierConfig,
    NumericVerifierConfig,
    VerifierConfig,
    VerifierPartConfig,
)
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


def build_verifiers(config: VerifierConfig) -> BuiltVerifiers:
    """All parts with their weights; the first part decides, form is shaping."""
    rule = AnswerRule(form=config.answer_form, marker=config.answer_marker)
    pools: list[MathPool] = []
    parts = tuple(
        Part(verifier=_verifier(part, rule, pools), weight=part.weight, role=_role(part)) for part in config.parts
    )
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


def _role(config: VerifierPartConfig) -> Role:
    return "shaping" if isinstance(config, FormatVerifierConfig) else "outcome"


def _verifier(config: VerifierPartConfig, rule: AnswerRule, pools: list[MathPool]) -> Verifier:
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
