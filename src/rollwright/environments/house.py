"""The text world: rooms with doors, containers that open and shut, objects that one hand carries."""

from collections.abc import Mapping, Sequence
from typing import cast

from rollwright.environments.text_games import End
from rollwright.tasks import AGENT, HAND, OPEN, SHUT, Payload, State, goal_of, layout_of, start_of, unmet_conditions

__all__ = ["HouseGame"]


class HouseGame:
    """Rules of the house; see `TextGame`. What is in a shut container is not seen."""

    name = "text_world"
    revision = "1"
    idle_command = None

    def begin(self, payload: Payload) -> State:
        """As the task says."""
        return start_of(payload)

    def view(self, payload: Payload, state: State) -> str:
        """The room and what is in reach, a line each."""
        here = state[AGENT]
        lines = [f"in {here}"]
        for container in self._containers_here(payload, state):
            lines.append(f"{container} {state[container]}")
        for thing in self._objects(payload):
            if state[thing] == here:
                lines.append(f"see {thing}")
            elif state[thing] == HAND:
                lines.append(f"hold {thing}")
            elif self._is_in_reach(payload, state, thing):
                lines.append(f"{thing} in {state[thing]}")
        return "\n".join(lines)

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """Go, open, shut, take, put, drop: what can be done here."""
        doors = cast("Mapping[str, Sequence[str]]", layout_of(payload)["doors"])
        found = [f"go {room}" for room in doors[str(state[AGENT])]]
        here = self._containers_here(payload, state)
        found += [f"{'open' if state[container] == SHUT else 'shut'} {container}" for container in here]
        held = [thing for thing in self._objects(payload) if state[thing] == HAND]
        if held:
            found += [f"put {held[0]} in {container}" for container in here if state[container] == OPEN]
            found.append(f"drop {held[0]}")
        else:
            reach = [thing for thing in self._objects(payload) if self._is_in_reach(payload, state, thing)]
            found += [f"take {thing}" for thing in reach]
        return tuple(found)

    def act(self, payload: Payload, state: State, command: str) -> State:
        """The state after a command."""
        match command.split():
            case ["go", room]:
                return {**state, AGENT: room}
            case ["open", container]:
                return {**state, container: OPEN}
            case ["shut", container]:
                return {**state, container: SHUT}
            case ["take", thing]:
                return {**state, thing: HAND}
            case ["put", thing, "in", container]:
                return {**state, thing: container}
            case ["drop", thing]:
                return {**state, thing: state[AGENT]}
            case _:
                raise ValueError(f"{command!r} is no command of the house")

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """The final state alone counts."""
        return 0.0

    def end(self, payload: Payload, state: State) -> End | None:
        """Over when the goal is reached."""
        return None if unmet_conditions(goal_of(payload), state) else "environment_success"

    def _containers_here(self, payload: Payload, state: State) -> list[str]:
        places = cast("Mapping[str, str]", layout_of(payload)["containers"])
        return sorted(container for container, room in places.items() if room == state[AGENT])

    def _objects(self, payload: Payload) -> Sequence[str]:
        return cast("Sequence[str]", layout_of(payload)["objects"])

    def _is_in_reach(self, payload: Payload, state: State, thing: str) -> bool:
        where = state[thing]
        if where == state[AGENT]:
            return True
        return where in self._containers_here(payload, state) and state[str(where)] == OPEN
