"""Weights under which a small model's completions have a given distribution of lengths."""

from collections.abc import Sequence

import torch
from torch.nn.functional import log_softmax
from transformers import PreTrainedModel

from benchmarks.workloads import LogNormal

SEQUENCES, UPDATES = 4, 200


def fit_lengths(model: PreTrainedModel, lengths: LogNormal, prompts: Sequence[Sequence[int]]) -> None:
    """Teach `model` to end its n-th token with the hazard of `lengths`, and to draw any other token evenly.

    The target at every position is a whole distribution, not a sampled token, so a few hundred small updates are
    enough. In place; seeded.

    Args:
        model: with an end-of-sequence token in its configuration.
        lengths: to be had.
        prompts: token ids, all equally many, that completions stand behind.
    """
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    vocabulary, end = model.config.vocab_size, model.config.eos_token_id
    ending = torch.tensor(lengths.hazards())
    target = ((1 - ending) / (vocabulary - 1))[:, None].repeat(1, vocabulary)
    target[:, end] = ending
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=UPDATES, pct_start=0.1)
    opened = torch.tensor(list(prompts))
    for _ in range(UPDATES):
        words = torch.randint(vocabulary, (SEQUENCES, lengths.limit - 1), generator=generator)
        chosen = opened[torch.randint(len(opened), (SEQUENCES,), generator=generator)]
        tokens = torch.cat([chosen, words.where(words != end, end + 1)], dim=1)
        logits = model(input_ids=tokens, logits_to_keep=lengths.limit).logits
        loss = -(target * log_softmax(logits, -1)).sum(-1)
        # A position is met as often as completions come that far.
        weight = torch.tensor([max(lengths.survival(n + 0.5), 0.05) for n in range(lengths.limit)])
        (loss * weight).sum().div(weight.sum() * SEQUENCES).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
