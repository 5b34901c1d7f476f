"""Updates for the battery: every stream that a part may read, and rows of every kind that makes trouble."""

from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from rollwright.algorithms.masking import LOGPROB_STREAMS
from rollwright.algorithms.trial import trial_inputs
from tests.algorithms.pieces import Batch, credit_inputs

__all__ = [
    "GROUPS",
    "PARTS_OF_REWARD",
    "ROW_STREAMS",
    "batch_of",
    "batch_of_rows",
    "batches",
    "cut_row",
    "episodes_of",
    "seeded",
]

PARTS_OF_REWARD = ("first", "second")
_OFFERED = trial_inputs(8, parts=PARTS_OF_REWARD)
"""What a stream may hold is taken from the trial's: it has every name that a credit may read."""

ROW_STREAMS = frozenset(name for name, one in _OFFERED.values.items() if len(one) == len(_OFFERED.rewards))
"""Values that a row has once."""


def streams_for(inputs, seed):
    """The inputs with every stream of `streams.py`, each entry one of the trial's own."""
    generator = torch.Generator().manual_seed(seed)
    num_rows, num_tokens = len(inputs.rewards), int(inputs.row_offsets[-1])

    def taken(stream):
        count = num_rows if len(stream) == len(_OFFERED.rewards) else num_tokens
        return stream[torch.randint(len(stream), (count,), generator=generator)]

    lengths = inputs.row_offsets.diff()
    place = torch.arange(num_tokens) - inputs.row_offsets[:-1].repeat_interleave(lengths)
    of_token = inputs.group_index.repeat_interleave(lengths)
    return replace(
        inputs,
        step_rewards=taken(_OFFERED.step_rewards),
        turn_index=place // 2,
        state_index=10 * of_token + place // 2,
        source_index=inputs.group_index % 2,
        logprobs={name: taken(stream) for name, stream in _OFFERED.logprobs.items()},
        values={name: taken(stream) for name, stream in _OFFERED.values.items()},
        keys={
            "task": inputs.group_index,
            "role": torch.arange(num_rows) % 2,
            "parent": inputs.group_index,
        },
    )


def batch_of(inputs, seed, *, distance=0.3):
    """The rows with scores of every policy; at distance 0 it has not changed since it sampled."""
    generator = torch.Generator().manual_seed(seed)
    num_tokens = int(inputs.row_offsets[-1])

    def normal():
        return torch.randn(num_tokens, generator=generator, dtype=torch.float64)

    base = -0.1 - 2.0 * torch.rand(num_tokens, generator=generator, dtype=torch.float64)
    moved = {name: base + distance * normal() for name in LOGPROB_STREAMS}
    filled = streams_for(inputs, seed)
    # The planner gives credit and loss the same scores.
    credited = {name: moved[name] for name in ("behavior", "proximal", "reference", "teacher")}
    teacher = -0.1 - 2.0 * torch.rand(num_tokens, generator=generator, dtype=torch.float64)
    return Batch(
        inputs=replace(filled, logprobs={**filled.logprobs, **credited, "teacher": teacher}),
        logprobs={**moved, "teacher": teacher},
        entropy=0.2 + torch.rand(num_tokens, generator=generator, dtype=torch.float64),
        values={name: normal() for name in ("current", "previous", "target")},
    )


@st.composite
def rows(draw):
    """Credit inputs of one to three groups of one to four episodes of one or two rows."""
    groups = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    facts = []
    for group, size in enumerate(groups):
        for attempt in range(size):
            reward = draw(st.sampled_from((0.0, 0.25, 1.0, None)))
            segments = draw(st.sampled_from([1, 1, 1, 2]))
            facts += [(reward, group, 10 * group + attempt) for _ in range(segments)]
    return credit_inputs(
        [reward for reward, _, _ in facts],
        groups=[group for _, group, _ in facts],
        episodes=[episode for _, _, episode in facts],
        lengths=draw(st.lists(st.integers(0, 4), min_size=len(facts), max_size=len(facts))),
        truncated=draw(st.lists(st.integers(0, 1), min_size=len(facts), max_size=len(facts))),
    )


@st.composite
def batches(draw, *, unchanged=False):
    """Updates with unscored rows, empty rows, groups of one and rows that a limit ended."""
    return batch_of(draw(rows()), draw(st.integers(0, 2**31)), distance=0.0 if unchanged else 0.3)


GROUPS = (0, 0, 0, 0, 1, 1, 2, 2, 3)
EPISODES = (0, 1, 1, 2, 10, 11, 20, 21, 30)
REWARDS = (1.0, 0.0, 0.0, None, 1.0, 0.0, 1.0, 1.0, 0.25)


def seeded(seed, *, distance=0.3, rewards=REWARDS, step_rewards=True):
    """One update of four groups: one with an episode of two rows and an unscored attempt, a level one, one alone."""
    inputs = credit_inputs(
        rewards,
        groups=GROUPS,
        episodes=EPISODES,
        lengths=[3, 2, 1, 2, 4, 1, 2, 0, 2],
        truncated=[0, 1, 0, 0, 0, 0, 0, 0, 0],
    )
    batch = batch_of(inputs, seed, distance=distance)
    if step_rewards:
        return batch
    paid = torch.zeros_like(batch.inputs.step_rewards)
    return replace(batch, inputs=replace(batch.inputs, step_rewards=paid))


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Rows of another batch."""

    batch: Batch
    token_index: Tensor
    """(N,) where each token stands in the other batch."""


def episodes_of(batch):
    """Rows of each episode, in order of their first."""
    found: dict[int, list[int]] = {}
    for row, episode in enumerate(batch.inputs.episode_index.tolist()):
        found.setdefault(episode, []).append(row)
    return list(found.values())


def batch_of_rows(batch, order, *, episodes=None):
    """These rows, which may stand in any order and more than once; with their episodes, or new ones."""
    of_row = torch.tensor(list(order), dtype=torch.int64)
    spans = [range(*batch.inputs.row_offsets[row : row + 2].tolist()) for row in of_row]
    of_token = torch.tensor([token for span in spans for token in span], dtype=torch.int64)
    taken = _taken(batch, of_row, of_token, [len(span) for span in spans])
    if episodes is not None:
        taken = replace(taken, inputs=replace(taken.inputs, episode_index=torch.tensor(episodes)))
    return Taken(batch=taken, token_index=of_token)


def cut_row(batch, row, length):
    """The row as two of its episode, the first of them with this many tokens."""
    of_row = torch.tensor([place for place in range(len(batch.lengths)) for _ in range(2 if place == row else 1)])
    lengths = [*batch.lengths[:row], length, batch.lengths[row] - length, *batch.lengths[row + 1 :]]
    return _taken(batch, of_row, torch.arange(sum(lengths)), lengths)


def _taken(batch, of_row, of_token, lengths):
    """Values of rows and of tokens by their places in another batch."""
    inputs = batch.inputs
    taken = replace(
        inputs,
        rewards=inputs.rewards[of_row],
        group_index=inputs.group_index[of_row],
        source_index=inputs.source_index[of_row],
        episode_index=inputs.episode_index[of_row],
        row_offsets=torch.tensor([0, *lengths]).cumsum(0),
        is_truncated=inputs.is_truncated[of_row],
        step_rewards=inputs.step_rewards[of_token],
        turn_index=inputs.turn_index[of_token],
        state_index=inputs.state_index[of_token],
        logprobs={name: one[of_token] for name, one in inputs.logprobs.items()},
        values={name: one[of_row if name in ROW_STREAMS else of_token] for name, one in inputs.values.items()},
        keys={name: one[of_row] for name, one in inputs.keys.items()},
    )
    return Batch(
        inputs=taken,
        logprobs={name: one[of_token] for name, one in batch.logprobs.items()},
        entropy=batch.entropy[of_token],
        values={name: one[of_token] for name, one in batch.values.items()},
    )
