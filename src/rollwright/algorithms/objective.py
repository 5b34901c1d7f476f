"""The seam of the mathematics: what an objective is made of, and the tensors its parts speak.

    CreditInputs ──credit──► Credit ──planner──► TokenStreams ──keep, ratio, correction, surrogate──► loss terms
    CreditInputs ──weights──► token weights ──planner──┘ └──regularizers──────────────────────────► loss terms

R rows are branches of trajectories, sorted by (group, slot, attempt, leaf segment); `TokenStreams` hold all T packed
tokens of a piece, `CreditInputs`, `Credit` and weights the N action tokens of the rows alone. Entry t of a stream is
about token t itself. Log-probabilities are nats.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from rollwright.algorithms.fitting import check_each, check_offsets

__all__ = [
    "Controller",
    "CorrectionFn",
    "Counting",
    "Credit",
    "CreditFn",
    "CreditInputs",
    "Keep",
    "KeepFn",
    "Memory",
    "Objective",
    "RatioFn",
    "Regularizer",
    "RowLengths",
    "Surrogate",
    "SurrogateFn",
    "TokenStreams",
    "UpdateStage",
    "WeightFn",
]

Counting = Literal["structural", "kept"]
"""Whether tokens cut by a correction stay in the denominator (`structural`) or leave it (`kept`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenStreams:
    """A piece: whole rows, packed. A stream that is not needed is absent, never zero."""

    row_offsets: Tensor
    """(rows + 1,) int64; row r is `row_offsets[r]:row_offsets[r + 1]`."""
    action_mask: Tensor
    """(T,) bool, True on the tokens that are trained. What other streams hold elsewhere is never read."""
    advantages: Tensor
    """(T,) float, detached."""
    token_weights: Tensor
    """(T,) float64, of the main component, final scale included."""
    policy_versions: Tensor
    """(T,) int32, weights that sampled the token; -1 where nothing was sampled."""
    logprobs: Mapping[str, Tensor]
    """(T,) each: behavior, proximal, current, reference, teacher; current alone has the gradient."""
    values: Mapping[str, Tensor]
    """(T,) each: current, previous, target."""
    entropy: Tensor | None = None
    """(T,) nats, full vocabulary at the temperature of the segment; may have a gradient."""
    made: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """(T,) each, by the name of the update stage that made it from all rows of the update."""

    def __post_init__(self) -> None:
        """Refuse streams that do not fit the mask."""
        num_tokens = len(self.action_mask)
        check_each({"action_mask": self.action_mask}, num_tokens, "tokens", torch.bool)
        check_offsets(self.row_offsets, num_tokens)
        own = {"advantages": self.advantages, "token_weights": self.token_weights}
        own |= {"policy_versions": self.policy_versions}
        own |= {} if self.entropy is None else {"entropy": self.entropy}
        for streams in (own, self.logprobs, self.values, self.made):
            check_each(streams, num_tokens, "tokens")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CreditInputs:
    """Rows of whole groups on the host, float64, action tokens only."""

    rewards: Tensor
    """(R,) float64, verifier units; NaN where unscored."""
    group_index: Tensor
    """(R,) int64; equal values were dispatched together."""
    source_index: Tensor
    """(R,) int64, task source."""
    episode_index: Tensor
    """(R,) int64; rows of one trajectory are equal."""
    row_offsets: Tensor
    """(R + 1,) int64 into the N action tokens."""
    is_truncated: Tensor
    """(R,) bool; ended by a limit, not by the model or the environment."""
    step_rewards: Tensor
    """(N,) float64, rewards given on the way; 0 where none."""
    turn_index: Tensor
    """(N,) int64, turn of the token within its row."""
    state_index: Tensor
    """(N,) int64; equal values started from equal environment states; -1 unknown."""
    logprobs: Mapping[str, Tensor]
    """(N,) nats each: behavior, proximal, reference, teacher, and what a credit names beside them."""
    values: Mapping[str, Tensor]
    """predicted (N,), bootstrap (R,), and what a credit names beside them; `streams.py` has the table of names."""
    keys: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """(R,) int64 each: task, role, parent; what a comparison group may be made of beside the dispatch."""

    def __post_init__(self) -> None:
        """Refuse streams that do not fit the rows; `streams.py` looks at scores, values and keys when they are read."""
        check_offsets(self.row_offsets, None)
        num_rows, num_tokens = len(self.row_offsets) - 1, int(self.row_offsets[-1])
        of_rows = {"group_index": self.group_index, "source_index": self.source_index}
        check_each({"rewards": self.rewards}, num_rows, "rows", torch.float64)
        check_each({**of_rows, "episode_index": self.episode_index}, num_rows, "rows", torch.int64)
        check_each({"is_truncated": self.is_truncated}, num_rows, "rows", torch.bool)
        check_each({"step_rewards": self.step_rewards}, num_tokens, "action tokens", torch.float64)
        of_tokens = {"turn_index": self.turn_index, "state_index": self.state_index}
        check_each(of_tokens, num_tokens, "action tokens", torch.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Credit:
    """What each action token is worth."""

    advantages: Tensor
    """(N,) float64; 0 in every untrained row."""
    value_targets: Tensor | None
    """(N,) float64."""
    untrained: Mapping[int, str]
    """Row to reason. `zero_contrast` rows stay in the denominators; `unscored` and `truncated` rows leave them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Keep:
    """Which tokens stay in the numerator; made from behavior and proximal, before the weights."""

    keep: Tensor
    """(T,) bool, False outside the action mask."""
    flags: Tensor
    """(T,) int32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surrogate:
    """What is maximised, before weight and correction."""

    per_token: Tensor
    """(T,)"""
    flags: Tensor
    """(T,) int32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowLengths:
    """All that a closed form of a denominator may look at."""

    num_tokens: Tensor
    """(R,) int64 trained tokens; under `kept` those that were kept."""
    group_index: Tensor
    """(R,) int64"""
    source_index: Tensor
    """(R,) int64"""
    episode_index: Tensor
    """(R,) int64"""
    rewards: Tensor
    """(R,) float64, NaN where unscored: for denominators of successful rows."""


class WeightFn(Protocol):
    """A denominator: per-token weights, and the closed form that their sum is audited with."""

    @property
    def name(self) -> str:
        """The name that a recipe writes and a receipt repeats."""
        ...

    @property
    def counting(self) -> Counting:
        """`kept`: the planner makes `keep` first and passes it; `structural`: it passes None."""
        ...

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64 weights of the trained tokens; `keep` is (N,) bool under `kept`, else None."""
        ...

    def weight_sum(self, rows: RowLengths) -> float:
        """What the weights sum to, computed from row lengths alone."""
        ...

    def denominator(self, rows: RowLengths) -> float:
        """N, B, B·L or P, as the name has it; 0 where there is nothing to divide."""
        ...


CreditFn = Callable[[CreditInputs], Credit]
KeepFn = Callable[[TokenStreams], Keep]
RatioFn = Callable[[TokenStreams], Tensor]
CorrectionFn = Callable[[TokenStreams], Tensor]
"""(T,) detached weight."""
SurrogateFn = Callable[[Tensor, TokenStreams], Surrogate]
"""Takes the ratio itself, not its log."""


@runtime_checkable
class Controller(Protocol):
    """A coefficient that follows a metric; its state is checkpointed. `controllers_of` finds it in any part."""

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Take the metrics of an update that has happened, by logged name; NaN where one was undefined."""
        ...

    def value(self) -> float:
        """The coefficient of the next update."""
        ...

    def state(self) -> Mapping[str, float]:
        """All that is needed to go on."""
        ...

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from a state that `state` gave."""
        ...


@runtime_checkable
class Memory(Protocol):
    """A credit that remembers rows of earlier steps, such as a running baseline; its state is checkpointed."""

    def __call__(self, inputs: CreditInputs) -> Credit:
        """The credit of a step, which leaves the memory as it is."""
        ...

    def advance(self, inputs: CreditInputs) -> None:
        """Take in the rows of a step whose credit is made."""
        ...

    def state(self) -> Mapping[str, float]:
        """All that is needed to go on."""
        ...

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from a state that `state` gave."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStage:
    """A stream that only the whole update can give: a selection, a batch mean. Made once, before the first gradient."""

    name: str
    """Its name in `TokenStreams.made`."""
    make: Callable[[TokenStreams, Generator], Tensor]
    """(T,) from all rows of the update with behavior and proximal; draws from the generator alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regularizer:
    """A term that is added to the loss: coefficient · weight · per-token value over action tokens."""

    component: str
    """Its name in receipts: kl, entropy, nll, …"""
    coefficient: float | Controller
    per_token: Callable[[TokenStreams], Tensor]
    """(T,) to be minimised."""
    weights: WeightFn


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A composition: credit, ratio, keep, correction, surrogate, weights and regularizers."""

    name: str
    credit: CreditFn
    ratio: RatioFn
    keep: KeepFn
    correction: CorrectionFn
    surrogate: SurrogateFn
    weights: WeightFn
    regularizers: tuple[Regularizer, ...]
    needs: frozenset[str]
    """Of proximal, reference, entropy what the loss reads, and teacher, values where anything does: else not computed.
    `behavior`: the loss reads it, so a token without it is a non-finite one."""
    component: str = "policy_gradient"
    """Name of the main term in receipts; `nll` for supervised learning."""
    stages: tuple[UpdateStage, ...] = ()
    """Streams made on whole updates; they read proximal scores where `needs` has them."""
    acts_without_advantage: bool = False
    """True where rows of advantage 0 have a gradient all the same, such as in a regression on the advantage."""
    before_credit: frozenset[str] = frozenset()
    """Of `streams.BEFORE_CREDIT` what the credit reads: made by the learner once the batch is laid out."""

    @property
    def reads(self) -> frozenset[str]:
        """What a run has to make for it, before credit or for the loss."""
        return self.needs | self.before_credit
