"""Defense of a network that is only partly seen, with rewards that are never positive.

Each step costs 1 for every host that is taken and 1 for a restoration. What is taken shows only in a scan. The return
is the sum; there is no success in it, and 0 cannot be reached.
"""

from collections.abc import Mapping
from typing import cast

from rollwright.environments.text_games import End
from rollwright.tasks import HOSTS, WATCH_STEPS, Payload, State, layout_of, start_of

__all__ = ["NetworkGame", "defended"]

_TAKEN, _CLEAN = "taken", "clean"


class NetworkGame:
    """Rules of the defense; see `TextGame`. The step is part of the state: the intruder goes by it."""

    name = "network"
    revision = "1"
    idle_command = "wait"

    def begin(self, payload: Payload) -> State:
        """All hosts clean."""
        return start_of(payload)

    def view(self, payload: Payload, state: State) -> str:
        """The step, and what the last command showed."""
        return f"step {state['step']} of {WATCH_STEPS}\n{state['seen'] or 'nothing new'}"

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """Wait, scan all hosts, or restore one."""
        return ("wait", "scan", *(f"restore {host}" for host in HOSTS))

    def act(self, payload: Payload, state: State, command: str) -> State:
        """The defender, then the intruder."""
        after = dict(state)
        after["seen"] = ""
        verb, _, host = command.partition(" ")
        if verb == "restore":
            after[host] = _CLEAN
        elif verb == "scan":
            taken = [name for name in HOSTS if after[name] == _TAKEN]
            after["seen"] = "taken: " + (", ".join(taken) or "none")
        step = cast("int", state["step"])
        attacks = cast("Mapping[str, str]", layout_of(payload)["attacks"])
        if target := attacks.get(str(step)):
            after[target] = _TAKEN
        after["step"] = step + 1
        return after

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """Minus what is taken, minus one for a restoration."""
        taken = sum(after[host] == _TAKEN for host in HOSTS)
        return -float(taken + command.startswith("restore"))

    def end(self, payload: Payload, state: State) -> End | None:
        """Over after the last step; whether that is good, the return says."""
        return "environment_success" if state["step"] == WATCH_STEPS else None


def defended(payload: Payload) -> tuple[str, ...]:
    """What one does who knows the intruder's plan: restore each host right after it is taken."""
    attacks = cast("Mapping[str, str]", layout_of(payload)["attacks"])
    return tuple(
        f"restore {attacks[str(step - 1)]}" if str(step - 1) in attacks else "wait" for step in range(WATCH_STEPS)
    )
