"""A sample task in the form of AgentBench, and a world with AppWorld's interface, made for the tests."""

import contextlib
import io
import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass
class Said:
    """As their ChatHistoryItem."""

    role: str
    content: str


@dataclass
class Finished:
    """As their TaskSampleExecutionResult."""

    status: str
    result: dict


class Vault:
    """Three digits to be found by asking higher or lower, in five turns."""

    async def start_sample(self, index, session):
        chance = random.Random(index)
        code = chance.randint(100, 999)
        session.inject({"role": "user", "content": "Guess a number of three digits."})
        session.inject(Said("agent", "500"))
        for _ in range(5):
            turn = await session.action(
                {"role": "user", "content": f"It is {'below' if code < 500 else 'not below'} 500."}
            )
            if turn.status != "normal":
                return Finished("agent invalid action", {"found": False})
            if turn.content == str(code):
                return Finished("completed", {"found": True})
        return Finished("task limit reached", {"found": False})


class Broken:
    async def start_sample(self, index, session):
        await session.action({"role": "user", "content": "?"})
        raise RuntimeError("the database went away")


class Forgetful:
    async def start_sample(self, index, session):
        await session.action({"role": "user", "content": "?"})
        session.clear()


def vault_reward(status, result):
    return float(status == "completed" and result["found"])


class Notes:
    """One app, `notes`; the code that it runs in this process is the tests' own."""

    def __init__(self, task_id):
        self.task: Any = SimpleNamespace(instruction=f"Add a note '{task_id}' and complete the task.")
        self.task_id = task_id
        self.notes = []
        self.is_done = False
        self.is_closed = False
        notes = SimpleNamespace(add=self.notes.append, list=lambda: list(self.notes))
        supervisor = SimpleNamespace(complete_task=self._complete)
        self._names = {"apis": SimpleNamespace(notes=notes, supervisor=supervisor)}

    def _complete(self):
        self.is_done = True

    def execute(self, code):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self._names)
        except Exception as error:  # noqa: BLE001 - what the code raises is its output, as there
            return f"Execution failed. {type(error).__name__}: {error}"
        return printed.getvalue() or "Execution successful."

    def task_completed(self):
        return self.is_done

    def evaluate(self) -> Any:
        tests = [self.notes == [self.task_id], self.is_done]
        return SimpleNamespace(success=all(tests), num_tests=len(tests), passes=[one for one in tests if one])

    def close(self):
        self.is_closed = True
