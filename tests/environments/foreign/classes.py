"""Environments as the users of other packages write them: a class of TRL, one of SkyRL-Gym's form, an opponent."""

import random

__all__ = ["Counter", "CountdownEnv", "Silent", "Untyped", "first_free", "says_please"]


class Counter:
    """An environment class of TRL."""

    def __init__(self) -> None:
        self.total = 0
        self.goal = 0

    def reset(self, goal: int = 3, **row) -> str | None:
        self.goal = goal
        return f" The goal is {goal}." if row.get("shown") else None

    def add(self, amount: int) -> str:
        """Add to the total.

        Args:
            amount: a whole number
        """
        if amount > 5:
            raise ValueError("too much at once")
        self.total += amount
        return f"total {self.total}"

    async def look(self) -> int:
        """Look at the total."""
        return self.total

    def get_reward(self) -> float:
        return float(self.total == self.goal)

    def _hidden(self) -> None:
        pass


class Silent:
    """Pays nothing by itself."""

    def reset(self, **row) -> None:
        return None


class Untyped(Counter):
    def subtract(self, amount):
        """Says too little."""


def says_please(prompts, completions, environments, goal, **columns) -> list[float]:
    """A reward function as TRL calls it."""
    assert len(prompts) == len(completions) == len(environments) == len(goal) == 1
    return [0.5 * ("please" in completions[0][-1]["content"])]


class CountdownEnv:
    """`init` and `step` of text: count down from a number that the process's own generator draws."""

    def __init__(self, env_config, extras) -> None:
        self.left = extras["extra_info"]["start"] + random.randint(0, env_config.spread)
        self.wrong = 0
        self.is_closed = False

    def init(self, prompt):
        said = {"role": "user", "content": f"Count down from {self.left}."}
        return [*prompt, said], {}

    def step(self, action: str):
        if action == "image":
            return {"observations": [{"role": "user", "content": [{"type": "image"}]}], "reward": 0.0, "done": False}
        if action == "rewrite":
            return {"observations": [], "reward": 0.0, "done": True, "postprocessed_action": "something else"}
        if action.strip() != str(self.left):
            self.wrong += 1
            return {"observations": [{"role": "user", "content": "no"}], "reward": -0.25, "done": False, "metadata": {}}
        self.left -= 1
        done = self.left == 0
        said = [] if done else [{"role": "user", "content": "yes"}]
        return {"observations": said, "reward": 1.0 if done else 0.0, "done": done, "metadata": {}}

    def get_metrics(self):
        return {"wrong": self.wrong, "name": "countdown"}

    def close(self) -> None:
        self.is_closed = True


def first_free(observation: str, seed: int) -> str:
    """An opponent at a board of nine fields: takes the first that nobody has."""
    board = observation.rsplit("Available Moves", 1)[-1] if "Available Moves" in observation else observation
    free = [number for number in range(9) if f"[{number}]" in board or f" {number} " in board]
    return f"[{(free or [0])[0]}]"
