"""Play an episode of any environment by a script, and look at what came of it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rollwright.record import Action, Environment, Passage, StepResult, Submission, Task, ToolRequest, ToolResult

__all__ = ["Call", "Played", "play", "submission"]

Call = tuple[str, Mapping[str, object] | str]
"""A tool and its arguments, or their text."""


@dataclass
class Played:
    """What an episode said and left."""

    tools: Mapping[str, str] = field(default_factory=dict)
    results: list[StepResult] = field(default_factory=list)
    called: list[ToolResult] = field(default_factory=list)
    left: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def said(self) -> list[str]:
        return [m.text for r in self.results for o in r.observations for m in o.messages]

    @property
    def outcome(self) -> dict:
        return json.loads(self.left["outcome.json"])

    @property
    def hashes(self) -> list[str | None]:
        return [o.state_hash for r in self.results for o in r.observations]


async def play(environment: Environment, task: Task, *turns: str | Sequence[Call], seed: int = 0) -> Played:
    """A text is a turn; a list is a turn of calls."""
    played = Played()
    async with asyncio.timeout(60), environment.open(task, seed=seed) as episode:
        played.tools = episode.tools
        played.results.append(await episode.begin())
        for number, turn in enumerate(turns):
            results: list[ToolResult] = []
            for place, (tool, given) in enumerate(() if isinstance(turn, str) else turn):
                arguments = given if isinstance(given, str) else json.dumps(given)
                request = ToolRequest(call_id=f"c{number}.{place}", tool=tool, arguments=arguments)
                results.append(await episode.call(request))
            played.called += results
            text = turn if isinstance(turn, str) else ""
            action = Action(actor="agent", turn=number, text=text, calls=tuple(results))
            played.results.append(await episode.step(action))
            if not played.results[-1].observations:
                break
        played.left = await episode.artifacts()
    return played


def submission(task: Task, played: Played, text: str = "") -> Submission:
    """What a verifier sees of it."""
    said = (Passage(actor="agent", kind="policy", text=text),)
    return Submission(trajectory_id="t", task=task, terminal_reason="model_end", passages=said, artifacts=played.left)
