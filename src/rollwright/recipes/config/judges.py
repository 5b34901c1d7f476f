"""Graders that are models: judges by grade, equivalence, rubric or comparison, and scalar reward models."""

from typing import Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "EquivalenceJudgeConfig",
    "GradeJudgeConfig",
    "JudgeConfig",
    "PairwiseJudgeConfig",
    "RewardModelConfig",
    "RubricJudgeConfig",
]


class JudgeConfig(StrictConfig):
    """Who judges, how long it is asked, and what it must keep to give rewards."""

    weight: float = 1.0
    """Of this part in the reward; the raw value is kept beside it."""
    backend: Literal["server", "folder", "custom"] = "server"
    """`server`: OpenAI-compatible, at `url`. `folder`: a causal model in our engine. `custom`: a client of your own."""
    model: str
    """Its name at the server; its folder; or `package.module:callable`, which returns a `JudgeClient`."""
    url: str = ""
    """Such as `http://127.0.0.1:8000/v1`; for a server alone."""
    key_file: str = ""
    """A file that holds the server's key; the key itself is never stored."""
    max_tokens: int = Field(default=512, ge=1, le=1_000_000)
    """Of a reply."""
    max_context_tokens: int = Field(default=4096, ge=2, le=10_000_000)
    """Of the engine of a `folder`."""
    temperature: float = Field(default=0.0, ge=0, le=100)
    prompt_price: float = Field(default=0.0, ge=0)
    """Of a million tokens, for the cost of each verdict; both 0: no cost is recorded."""
    completion_price: float = Field(default=0.0, ge=0)
    attempts: int = Field(default=3, ge=1, le=100)
    """Tries until a reply can be read; then the episode is left out."""
    timeout_s: float = Field(default=60.0, gt=0, le=100_000)
    concurrency: int = Field(default=16, ge=1, le=10_000)
    max_characters: int = Field(default=20_000, ge=1, le=100_000_000)
    """Of an answer that is shown; the rest is cut with a note."""
    calibration: str = ""
    """A JSONL file of labeled cases that the judge must agree with before anything is scored; empty: none."""
    min_agreement: float = Field(default=0.8, ge=0, le=1)
    """Share of each set of those cases."""
    calibration_record: str = ""
    """A JSON file with the agreement of an earlier day; written where it is missing."""
    max_drift: float = Field(default=0.05, ge=0, le=1)
    """How far the agreement may lie from the record's."""


class GradeJudgeConfig(JudgeConfig):
    """A judge that grades each answer, or each whole episode, on a scale."""

    kind: Literal["judge"] = "judge"
    instructions: str = ""
    """What is to be graded, and how; empty: how well the task was solved."""
    low: float = 0.0
    high: float = 10.0
    shown: Literal["answer", "episode"] = "answer"
    reference: Literal["hidden", "shown"] = "hidden"
    """Whether the judge is told the task's own answer."""


class EquivalenceJudgeConfig(JudgeConfig):
    """1 where the answer means what the gold answer means; the judge is asked only where no rule can tell."""

    kind: Literal["equivalence"] = "equivalence"
    tolerance: float = Field(default=1e-6, ge=0)
    """Relative, between two numbers."""


class RubricJudgeConfig(JudgeConfig):
    """The share of a rubric that the answer meets."""

    kind: Literal["rubric"] = "rubric"
    rubric: str = ""
    """A JSON file with items and aggregation, or with a rubric for each task id; empty: each task's `info.rubric`."""
    shown: Literal["answer", "episode"] = "answer"


class PairwiseJudgeConfig(JudgeConfig):
    """Scores of a group from comparisons of neighbors."""

    kind: Literal["pairwise"] = "pairwise"
    orders: Literal["one", "both"] = "both"
    """Calls a pair: one, or one in each order, whose mean is free of position."""


class RewardModelConfig(StrictConfig):
    """A sequence classifier with one output, from a folder that transformers wrote."""

    kind: Literal["reward_model"] = "reward_model"
    weight: float = 1.0
    """Of this part in the reward; the raw score is kept beside it."""
    model: str
    """Its folder, tokenizer and chat template included."""
    center: float = 0.0
    """The raw score that is worth a half."""
    scale: float = Field(default=1.0, gt=0)
    """One more of it multiplies the odds by e."""
    max_characters: int = Field(default=20_000, ge=1, le=100_000_000)
