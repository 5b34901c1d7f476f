"""What the learner's model says of a few contexts, to be compared with what an engine says of them."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from rollwright.learner.forward import Scorer, deterministic
from rollwright.learner.packed import pack_rows
from rollwright.record import Ids

__all__ = ["context_logprobs"]


def context_logprobs(scorer: Scorer, contexts: Sequence[Ids]) -> list[NDArray[np.float32]]:
    """Log-probabilities over the whole vocabulary at temperature 1, computed as a training batch would be.

    Args:
        scorer: the model as it stands, without a gradient.
        contexts: a few, each of at least two tokens.

    Returns:
        (n - 1, V) nats for each context: row i is the distribution of token i + 1.
    """
    device = scorer.model.device
    lengths = [len(context) for context in contexts]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = torch.from_numpy(np.concatenate(contexts).astype(np.int64)).to(device)
    positions = torch.cat([torch.arange(length) for length in lengths]).to(device)
    rows = pack_rows(tokens, torch.from_numpy(offsets))
    with deterministic(device), torch.no_grad():
        states = scorer.hidden(tokens, positions, rows)[rows.state_of]
        found = [
            torch.log_softmax(scorer.head(states[low : high - 1].float()), dim=-1).cpu().numpy()
            for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]
    return found
