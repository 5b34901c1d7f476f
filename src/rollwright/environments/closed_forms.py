"""Games so small that return and policy gradient are known exactly: a bandit, and a chain of two actions.

What learning code computes from all their episodes is compared with these numbers.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollwright.environments.text_games import End
from rollwright.tasks import Payload, State, layout_of

__all__ = ["BanditGame", "ChainGame", "bandit_gradient", "chain_gradient"]

Floats = NDArray[np.float64]


class BanditGame:
    """One pull; `layout.arms` says what each arm pays. See `TextGame`."""

    name = "bandit"
    revision = "1"
    idle_command = None

    def begin(self, payload: Payload) -> State:
        """Nothing pulled."""
        return {"pulled": ""}

    def view(self, payload: Payload, state: State) -> str:
        """Nothing is shown."""
        return "pull an arm"

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """The arms."""
        return tuple(cast("Mapping[str, float]", layout_of(payload)["arms"]))

    def act(self, payload: Payload, state: State, command: str) -> State:
        """One pull."""
        return {"pulled": command}

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """What the arm pays."""
        return cast("Mapping[str, float]", layout_of(payload)["arms"])[command]

    def end(self, payload: Payload, state: State) -> End | None:
        """Over with the first pull."""
        return "environment_success" if state["pulled"] else None


class ChainGame:
    """`layout.length` states, of which `on` leads to the next and `off` out; the last `on` pays 1. See `TextGame`."""

    name = "chain"
    revision = "1"
    idle_command = None

    def begin(self, payload: Payload) -> State:
        """The first state."""
        return {"at": 0, "is_out": False}

    def view(self, payload: Payload, state: State) -> str:
        """Where one is."""
        return f"state {state['at']}"

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """The two actions."""
        return ("on", "off")

    def act(self, payload: Payload, state: State, command: str) -> State:
        """On, or out."""
        at = cast("int", state["at"])
        return {"at": at + (command == "on"), "is_out": command == "off"}

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """1 for the last step on."""
        return float(after["at"] == layout_of(payload)["length"])

    def end(self, payload: Payload, state: State) -> End | None:
        """Over at the end or out of the chain."""
        if state["is_out"]:
            return "environment_failure"
        return "environment_success" if state["at"] == layout_of(payload)["length"] else None


def bandit_gradient(logits: ArrayLike, rewards: ArrayLike) -> Floats:
    """Gradient of the expected reward of a softmax policy: p * (r - p·r).

    Args:
        logits: (A,) of the arms.
        rewards: (A,) of the arms.

    Returns:
        (A,) float64, in units of the reward; sums to 0.
    """
    exponents = np.exp(np.asarray(logits, dtype=np.float64) - np.max(logits))
    chances, paid = exponents / exponents.sum(), np.asarray(rewards, dtype=np.float64)
    return chances * (paid - chances @ paid)


def chain_gradient(logits: Sequence[float]) -> Floats:
    """Gradient of the chance to go through, where each state goes on with chance sigmoid(logit): J * (1 - p).

    Args:
        logits: one a state, of `on` against `off`.

    Returns:
        (states,) float64.
    """
    chances = 1.0 / (1.0 + np.exp(-np.asarray(logits, dtype=np.float64)))
    return np.prod(chances) * (1.0 - chances)
