"""A tiny batch to try an objective on: every stream that a part may read, with seeded random values.

Five groups: one success among failures, one failure among successes, all right, all wrong, and one with an attempt that
was not scored; one attempt is truncated, and one episode has two rows. The policy is unchanged, or moved a little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

import torch
from torch import Generator, Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import LOGPROB_STREAMS
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs, Objective, TokenStreams
from rollwright.algorithms.streams import BEFORE_CREDIT

__all__ = [
    "CREDIT_NEEDS",
    "ROW_TOKENS",
    "inputs_for",
    "scatter",
    "stages_of",
    "streams_before_credit",
    "trial_inputs",
    "trial_streams",
    "without",
]

ROW_TOKENS: Final = (3, 2, 4, 1)
"""Action tokens of the rows, in turn."""
CREDIT_NEEDS: Final[Mapping[str, str]] = {
    "teacher": "teacher",
    "predicted": "values",
    "bootstrap": "values",
}
"""Stream of a credit to the need of an objective under which a run makes it, beside those of `before_credit`."""

_SCORES: Final = ("behavior", "proximal", "reference", "teacher", "informed", "after", "before")
_PROCESS: Final = ("process", "process_reference")
_OF_TOKENS: Final = {"predicted": (0.0, 1.0), "entropy": (0.1, 2.0), "sum_squared_probabilities": (0.2, 0.9)}
_OF_ROWS: Final = {
    "bootstrap": (0.0, 1.0),
    "greedy_reward": (0.2, 0.8),
    "role_reward": (0.0, 1.0),
    "quality": (0.2, 1.0),
    "thinking_tokens": (1.0, 9.0),
    "answer_tokens": (1.0, 9.0),
    "input_tokens": (1.0, 9.0),
    "cold_start_budget": (2.0, 9.0),
    "effort": (1.0, 100.0),
}
"""Values to the range that they are drawn from."""


def inputs_for(credit: CreditFn, group_size: int, sources: Sequence[int] = ()) -> CreditInputs:
    """The trial batch with what the maps of a credit's stages name: parts of a reward, teachers, their sources.

    Args:
        credit: an estimator with its numbers and the stages around it.
        group_size: attempts of a group, at least 1.
        sources: numbers of the task sources that the denominators know; empty where they know any.
    """
    given = [one for stage in stages_of(credit) for one in stage.keywords.values()]
    items = [item for one in given if isinstance(one, Mapping) for item in cast("Mapping[object, object]", one).items()]
    own = tuple(dict.fromkeys(key for key, _ in items if isinstance(key, int)))
    shared = tuple(source for source in sources or own if not own or source in own)
    return trial_inputs(
        group_size,
        sources=shared or tuple(sources) or (0,),
        parts=tuple(dict.fromkeys(key for key, _ in items if isinstance(key, str))),
        scores=tuple(dict.fromkeys(value for _, value in items if isinstance(value, str))),
    )


def trial_inputs(
    group_size: int, *, sources: Sequence[int] = (0,), parts: Sequence[str] = (), scores: Sequence[str] = ()
) -> CreditInputs:
    """Rows of five groups, with every stream of `streams.py`.

    Args:
        group_size: attempts of a group, at least 1.
        sources: numbers of the task sources to take, in turn by group.
        parts: names of the parts of a reward to offer.
        scores: names of further log-probabilities to offer.

    Returns:
        Between 1 and 4 action tokens a row; the same at every call.
    """
    rows = _Rows.of(group_size)
    generator = Generator().manual_seed(0)
    lengths = torch.tensor([ROW_TOKENS[row % len(ROW_TOKENS)] for row in range(len(rows.rewards))])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    num_rows, num_tokens = len(rows.rewards), int(offsets[-1])
    group = torch.tensor(rows.groups)
    place = torch.arange(num_tokens) - offsets[:-1].repeat_interleave(lengths)

    def uniform(count: int, low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)

    return CreditInputs(
        rewards=torch.tensor(rows.rewards, dtype=torch.float64),
        group_index=group,
        source_index=torch.tensor(sources)[group % len(sources)],
        episode_index=torch.tensor(rows.episodes),
        row_offsets=offsets,
        is_truncated=torch.tensor(rows.truncated),
        step_rewards=uniform(num_tokens, -0.1, 0.1),
        turn_index=place // 2,
        state_index=10 * group.repeat_interleave(lengths) + place // 2,
        logprobs={name: uniform(num_tokens, -2.0, -0.1) for name in (*_SCORES, *_PROCESS, *scores)},
        values={
            **{name: uniform(num_tokens, low, high) for name, (low, high) in _OF_TOKENS.items()},
            **{name: uniform(num_rows, low, high) for name, (low, high) in _OF_ROWS.items()},
            **{f"part/{name}": uniform(num_rows, 0.0, 1.0) for name in parts},
            "is_hack": (torch.arange(num_rows) == num_rows - 1).to(torch.float64),
            "is_flagged": (torch.arange(num_tokens) % 3 == 0).to(torch.float64),
            "tool_calls": (torch.arange(num_rows) % 3).to(torch.float64),
        },
        keys={"task": group, "role": torch.zeros_like(group), "parent": group},
    )


def stages_of(credit: object) -> list[partial[object]]:
    """The stages around a credit with their numbers, outer first; the estimator last where it has numbers."""
    found: list[partial[object]] = []
    while isinstance(credit, partial):
        stage = cast("partial[object]", credit)
        found.append(stage)
        credit = stage.keywords.get("credit")
    return found


def without(inputs: CreditInputs, needs: frozenset[str], before_credit: frozenset[str]) -> CreditInputs:
    """The inputs as a run makes them for these needs and streams: without those that it would not compute."""

    def is_made(name: str) -> bool:
        return name in before_credit if name in BEFORE_CREDIT else CREDIT_NEEDS.get(name) in (None, *needs)

    def kept(streams: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: one for name, one in streams.items() if is_made(name)}

    return replace(inputs, logprobs=kept(inputs.logprobs), values=kept(inputs.values))


def streams_before_credit(credit: CreditFn) -> frozenset[str]:
    """What an objective with this credit says as `before_credit`, found by leaving each stream out.

    Args:
        credit: an estimator with all its numbers, and the stages around it.

    Returns:
        Of `BEFORE_CREDIT`; all of them where the credit refuses the trial batch, as `check_objective` then says.
    """
    inputs = inputs_for(credit, 2)
    everything = frozenset(CREDIT_NEEDS.values())
    found: set[str] = set()
    for stream in BEFORE_CREDIT:
        try:
            credit(without(inputs, everything, BEFORE_CREDIT - {stream}))
        except ObjectiveError:
            found.add(stream)
    return frozenset(found)


def trial_streams(objective: Objective, inputs: CreditInputs, credit: Credit, *, distance: float) -> TokenStreams:
    """The rows of the inputs as a piece, one prompt token before each, with the needed streams only.

    Args:
        objective: its `needs` say which streams there are.
        inputs: rows.
        credit: theirs.
        distance: nats by which the policy has moved, at random; 0 is an unchanged policy.

    Returns:
        Streams with NaN outside the action mask; `current` and `entropy` have a gradient.
    """
    generator = Generator().manual_seed(1)
    lengths = inputs.row_offsets.diff() + 1
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    is_action = torch.ones(int(offsets[-1]), dtype=torch.bool)
    is_action[offsets[:-1]] = False
    scores = torch.where(is_action, -0.1 - 2.0 * torch.rand(len(is_action), generator=generator), torch.nan)
    moved = (scores + distance * torch.randn(len(is_action), generator=generator)).requires_grad_()
    others = torch.where(is_action, -0.1 - 2.0 * torch.rand(len(is_action), generator=generator), torch.nan)
    logprobs = {name: scores for name in LOGPROB_STREAMS if name in objective.needs}
    logprobs |= {name: others for name in ("reference", "teacher") if name in objective.needs}
    targets = {} if credit.value_targets is None else {"target": others}
    return TokenStreams(
        row_offsets=offsets,
        action_mask=is_action,
        advantages=scatter(credit.advantages, is_action),
        token_weights=torch.zeros(len(is_action), dtype=torch.float64),
        policy_versions=torch.where(is_action, 0, -1).to(torch.int32),
        logprobs={**logprobs, "current": moved},
        values={"current": moved, "previous": scores, **targets} if "values" in objective.needs else {},
        entropy=torch.where(is_action, moved * -0.5, torch.nan) if "entropy" in objective.needs else None,
    )


def scatter(values: Tensor, is_action: Tensor) -> Tensor:
    """(T,) float64 from (N,): each action token's value, 0 elsewhere."""
    return torch.zeros(len(is_action), dtype=torch.float64).masked_scatter(is_action, values.to(torch.float64))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Facts of the rows, in order."""

    rewards: list[float]
    groups: list[int]
    episodes: list[int]
    truncated: list[bool]

    @classmethod
    def of(cls, group_size: int) -> "_Rows":
        rest = group_size - 1
        outcomes = [
            [1.0] + [0.0] * rest,
            [1.0] * rest + [0.0 if rest else 1.0],
            [1.0] * group_size,
            [0.0] * group_size,
            [torch.nan] + [1.0] * (rest // 2) + [0.0] * (rest - rest // 2),
        ]
        rewards = [reward for group in outcomes for reward in group]
        groups = [place for place, group in enumerate(outcomes) for _ in group]
        episodes = list(range(len(rewards)))
        # The first episode has a second row, and the last attempt of the first group did not end by itself.
        rewards, groups, episodes = [rewards[0], *rewards], [0, *groups], [0, *episodes]
        truncated = [row == group_size and group_size > 1 for row in range(len(rewards))]
        return cls(rewards=rewards, groups=groups, episodes=episodes, truncated=truncated)
