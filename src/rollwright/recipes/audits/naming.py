"""The verifier that an audit was asked for: one that ships, or one from outside, by its path."""

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import cast

from rollwright.recipes.build.named import VERIFIER, load_named, make_named
from rollwright.recipes.build.named_verifiers import LABELED_TEXT, named_verifier
from rollwright.recipes.errors import RecipeError
from rollwright.record import Verifier
from rollwright.verifiers import AnswerRule, ThreadedVerifier, VerifierSetupError, reward_function_verifier

__all__ = ["open_verifier"]


def open_verifier(name: str, stack: ExitStack, *, rule: AnswerRule = LABELED_TEXT) -> Verifier:
    """Make a verifier.

    Args:
        name: of one that ships, or `package.module:name` of a callable that returns a verifier, or of a reward
            function in the form of other systems.
        stack: closes what is behind it.
        rule: where answers stand, for one that ships.

    Raises:
        RecipeError: where there is none such.
    """
    if ":" not in name:
        named = named_verifier(name, rule=rule)
        stack.callback(named.close)
        return named.verifier
    found = load_named(name)
    if callable(found) and not inspect.isclass(found) and _asks_for_something(found):
        try:
            bound = reward_function_verifier(found, text="auto", scope="trajectory")
        except VerifierSetupError as error:
            raise RecipeError(f"{name!r} cannot be bound as a reward function: {error}.") from error
        return ThreadedVerifier(cast("Verifier", bound))
    return ThreadedVerifier(cast("Verifier", make_named(name, {}, needs=VERIFIER)))


def _asks_for_something(function: Callable[..., object]) -> bool:
    """Whether it cannot be called without arguments, as what makes a verifier is."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    open_kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.default is inspect.Parameter.empty and p.kind not in open_kinds for p in parameters)
