"""A web site in memory: a shop with a search, lists of results, pages of goods with options, and a button that buys.

Actions have the form of WebShop: `search[lamp]` and `click[lamp-a]`, `click[red]`, `click[buy]`, `click[back]`.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from rollwright.environments.text_games import End
from rollwright.tasks import Json, Payload, State, goal_of, layout_of, start_of, unmet_conditions

__all__ = ["WebSiteGame"]

_HOME = "home"


class WebSiteGame:
    """Rules of the site; see `TextGame`. A state is the page, the option chosen on it, and what was bought."""

    name = "web_site"
    revision = "1"
    idle_command = None

    def begin(self, payload: Payload) -> State:
        """The home page."""
        return start_of(payload)

    def view(self, payload: Payload, state: State) -> str:
        """The page."""
        page = str(state["page"])
        if page == _HOME:
            return "home page, search for goods"
        if item := self._item(payload, page):
            colors = ", ".join(cast("Sequence[str]", item["colors"]))
            return f"{page}, price {item['price']}\ncolors: {colors}\nchosen: {state['color'] or 'none'}"
        found = [f"{item['name']}, price {item['price']}" for item in self._items(payload) if item["kind"] == page]
        return "\n".join([f"results for {page}", *found])

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """What the page offers."""
        page = str(state["page"])
        if page == _HOME:
            return tuple(f"search[{kind}]" for kind in cast("Sequence[str]", layout_of(payload)["kinds"]))
        if item := self._item(payload, page):
            links = [*cast("Sequence[str]", item["colors"]), "buy", "back"]
        else:
            links = [*(str(item["name"]) for item in self._items(payload) if item["kind"] == page), "back"]
        return tuple(f"click[{link}]" for link in links)

    def act(self, payload: Payload, state: State, command: str) -> State:
        """The page behind a command."""
        page, (verb, _, rest) = str(state["page"]), command.partition("[")
        target = rest.removesuffix("]")
        item = self._item(payload, page)
        if verb == "search":
            return {**state, "page": target}
        if target == "back":
            return {**state, "page": item["kind"] if item else _HOME, "color": ""}
        if item is None:
            return {**state, "page": target}
        return {**state, "bought": page} if target == "buy" else {**state, "color": target}

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """The final state alone counts."""
        return 0.0

    def end(self, payload: Payload, state: State) -> End | None:
        """Over with the first thing that is bought."""
        if not state["bought"]:
            return None
        return "environment_failure" if unmet_conditions(goal_of(payload), state) else "environment_success"

    def _items(self, payload: Payload) -> Sequence[Mapping[str, Json]]:
        return cast("Sequence[Mapping[str, Json]]", layout_of(payload)["items"])

    def _item(self, payload: Payload, name: str) -> Mapping[str, Json] | None:
        return next((item for item in self._items(payload) if item["name"] == name), None)
