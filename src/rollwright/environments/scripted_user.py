"""A customer who follows a script: says what is asked for, corrects themselves, changes their mind, and leaves.

The agent's message is understood by its words alone, so equal messages get equal answers. Whoever can `answer` may
stand in the customer's place; a customer who is played by an engine would be a second actor of an environment.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, cast

from rollwright.tasks import Json, TaskError, UserScript

__all__ = ["DialogueUser", "ScriptedUser"]

_FAREWELL = re.compile(r"\b(?:good)?bye\b")
_OUTCOME = re.compile(r"\b(?:done|sent|blocked|paid|not possible|cannot|can't|too low|anything else)\b")
_CONFIRM = re.compile(r"\b(?:confirm|correct|is that right)\b")
_TOPICS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "target": re.compile(
            r"\b(?:to (?:which|what|whose) account|account of the recipient|recipient|payee|to whom)\b"
        ),
        "account": re.compile(r"\b(?:account|account number|number)\b"),
        "pin": re.compile(r"\b(?:pin|code)\b"),
        "amount": re.compile(r"\b(?:amount|how much|what sum)\b"),
    }
)
"""In this order; what one has matched the next does not see."""
_SAID: Mapping[str, str] = MappingProxyType(
    {
        "account": "my account is {}",
        "pin": "the pin is {}",
        "target": "it goes to account {}",
        "amount": "the amount is {}",
    }
)


class DialogueUser(Protocol):
    """Whoever the policy talks to."""

    def answer(self, text: str) -> str | None:
        """What is said to a message; None: the user leaves."""
        ...

    def content(self) -> Mapping[str, Json]:
        """All that decides the next answers."""
        ...


@dataclass(slots=True, eq=False)
class ScriptedUser:
    """A `DialogueUser`."""

    script: UserScript
    asked: list[str] = field(default_factory=list[str])
    """Facts that were asked for, as often as they were."""
    has_reconsidered: bool = False
    confused: int = 0

    @classmethod
    def restored(cls, script: UserScript, content: Json) -> "ScriptedUser":
        """The user as kept.

        Raises:
            TaskError: for content that is none.
        """
        if not isinstance(content, Mapping) or set(content) != {"asked", "has_reconsidered", "confused"}:
            raise TaskError("a kept user has asked, has_reconsidered and confused")
        return cls(
            script=script,
            asked=[str(one) for one in cast("list[Json]", content["asked"])],
            has_reconsidered=bool(content["has_reconsidered"]),
            confused=cast("int", content["confused"]),
        )

    def answer(self, text: str) -> str | None:
        """What is asked for, or a word on what is to be confirmed; None at an outcome, a farewell and at silence."""
        said = " ".join(text.casefold().split())
        if not said or _FAREWELL.search(said):
            return None
        if _CONFIRM.search(said):
            return self._confirmed()
        # A report with a question in it is a question.
        if "?" not in said and _OUTCOME.search(said):
            return None
        known = [topic for topic in _asked_topics(said) if topic in self.script.facts]
        if known:
            return _sentence("; ".join(self._fact(topic) for topic in known))
        self.confused += 1
        if self.confused >= self.script.patience:
            return None
        return f"I do not understand. {self.script.wish}"

    def content(self) -> Mapping[str, Json]:
        """What was asked, and how patient the user still is."""
        return {"asked": self.asked, "has_reconsidered": self.has_reconsidered, "confused": self.confused}

    def _confirmed(self) -> str:
        if self.script.new_amount is not None and not self.has_reconsidered:
            self.has_reconsidered = True
            return f"No, wait. Make it {self.script.new_amount} instead."
        return "Yes."

    def _fact(self, topic: str) -> str:
        value = self.script.facts[topic]
        is_first = topic not in self.asked
        self.asked.append(topic)
        if topic == "account" and self.script.first_account is not None:
            if is_first:
                return _SAID[topic].format(self.script.first_account)
            return f"sorry, {_SAID[topic].format(value)}"
        if topic == "amount" and self.has_reconsidered:
            value = self.script.new_amount or value
        return _SAID[topic].format(value)


def _asked_topics(said: str) -> list[str]:
    found: list[str] = []
    for topic, pattern in _TOPICS.items():
        said, count = pattern.subn(" ", said)
        if count:
            found.append(topic)
    return sorted(found, key=tuple(_SAID).index)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
