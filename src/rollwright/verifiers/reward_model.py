"""A learned scalar as a verifier: the score of a conversation, put between 0 and 1, the raw score kept."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rollwright.record import Message, NamedValue, Submission, Verdict, digest
from rollwright.tasks import TaskError, payload_of
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import Grade
from rollwright.verifiers.judging.prompting import Shown, shown_text
from rollwright.verifiers.judging.verdicts import judge_each, judged, silent

__all__ = ["RewardModelVerifier", "ScalarScorer", "preference_chance"]

_REVISION = 1


class ScalarScorer(Protocol):
    """A reward model behind a small face; where it runs is the wiring's."""

    @property
    def revision(self) -> str:
        """A digest of weights, tokenizer and template."""
        ...

    async def score(self, messages: Sequence[Message]) -> float:
        """The raw score of a conversation that ends with the answer, role `assistant`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelVerifier:
    """σ((score − center)/scale) of the answer; 0 for silence, which no score lies below.

    The raw score is the component `score`. A bounded reward keeps one odd score from moving a whole batch; `center` and
    `scale` are chosen on held-out answers so that most of them do not lie at an end.
    """

    scorer: ScalarScorer
    center: float = 0.0
    scale: float = 1.0
    shown: Shown = Shown()
    name: str = "reward_model"
    deadline_s: float = 300.0
    scope: Literal["trajectory"] = "trajectory"

    def __post_init__(self) -> None:
        """Refuse a scale that turns the order around."""
        if not (self.scale > 0 and math.isfinite(self.scale) and math.isfinite(self.center)):
            raise VerifierSetupError(f"center={self.center}, scale={self.scale}; both are finite and scale is above 0")

    @property
    def revision(self) -> str:
        """A digest of the model and of how its score is read."""
        own = [_REVISION, self.name, self.scorer.revision, float(self.center), float(self.scale)]
        return digest([*own, self.shown.parts()])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Score each by itself."""
        return await judge_each(self, submissions, self._judge)

    async def _judge(self, submission: Submission) -> Verdict:
        try:
            asked = payload_of(submission.task).messages
        except (TaskError, ValueError) as error:
            raise GoldError(str(error)) from error
        text = shown_text(submission, self.shown)
        if not text:
            return silent(self, submission)
        answer = Message(role="assistant", text=text[: self.shown.max_characters])
        raw = await self.scorer.score((*asked, answer))
        if not math.isfinite(raw):
            raise ValueError(f"the reward model gave {raw} for {submission.trajectory_id}")
        value = _sigmoid((raw - self.center) / self.scale)
        grade = Grade(value=value, evidence=f"score {raw:.6g}", components=(NamedValue(name="score", value=raw),))
        return judged(self, submission, grade, [])


def preference_chance(chosen: float, rejected: float) -> float:
    """σ(s_w − s_l): how probable the model takes the preference to be (Bradley–Terry)."""
    return _sigmoid(chosen - rejected)


def _sigmoid(gap: float) -> float:
    if gap >= 0:
        return 1.0 / (1.0 + math.exp(-gap))
    grown = math.exp(gap)
    return grown / (1.0 + grown)
