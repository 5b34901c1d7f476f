"""What holds for every composition, as checks of one objective on one batch."""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from rollwright.algorithms import kl_k3_plus, loss_terms
from rollwright.algorithms.controllers import controllers_of, memories_of
from rollwright.algorithms.layouts import PaddedBatch, credit_inputs_from_padded, streams_from_padded, to_padded
from rollwright.algorithms.masking import clean_streams
from rollwright.algorithms.regularizers.corrected_kl import kl_k3_corrected
from rollwright.algorithms.rows import row_sum
from rollwright.algorithms.stages import make_stages
from tests.algorithms.drawn_batches import ROW_STREAMS, batch_of_rows
from tests.algorithms.pieces import at, gradient_of, lay_out, run, update_of

__all__ = [
    "Held",
    "check_cuts",
    "check_finite_differences",
    "check_order",
    "check_padded",
    "check_poison",
    "check_quiet_rows",
    "check_single_precision",
    "check_states",
    "check_unchanged",
    "gradient_by_token",
    "whole",
]

POISON = (float("nan"), float("inf"), float("-inf"), 1e30)
Held = Literal["nothing", "other tokens", "weights", "gate"]
"""What finite differences hold: the factor of other tokens, or a detached weight, of the log-probability (`weights`)
or of the ratio (`gate`)."""
OWN_GRADIENT = (kl_k3_plus, kl_k3_corrected)
"""Terms whose gradient is not the slope of their value, on purpose: k2's, and one with a detached ratio."""
STEP = 1e-6


def whole(objective, batch, **layout):
    """The update as one piece."""
    return lay_out(update_of(objective, batch), range(len(batch.lengths)), **layout)


def gradient_by_token(objective, batch):
    """Loss and (N,) gradient of the update as one piece."""
    return gradient_of(objective, batch, [whole(objective, batch)])


def check_cuts(objective, batch, cuts, order):
    """One piece of everything against rows cut, shuffled and padded, on one rank and on two."""
    update = update_of(objective, batch)
    loss, gradient = gradient_of(objective, batch, [lay_out(update, range(len(batch.lengths)))])
    rows = list(order)
    bounds = [0, *sorted(cuts), len(rows)]
    pieces = [
        lay_out(update, rows[start:end], gaps=place % 3, padding=place * 2)
        for place, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))
    ]
    ranks = [gradient_of(objective, batch, pieces[rank::2]) for rank in (0, 1)]
    assert sum(part for part, _ in ranks) == pytest.approx(loss, abs=1e-9)
    # Up to the last bit: an exponential of torch may differ there by where in memory its token lies.
    assert torch.allclose(ranks[0][1] + ranks[1][1], gradient, rtol=1e-13, atol=1e-16)


def check_order(objective, batch, order):
    """Rows given in another order, with credit, weights and loss made anew."""
    if memories_of(objective) or any(stage.name != "self_normalized" for stage in objective.stages):
        return  # A memory takes rows as they come; a stage draws, or takes the first of equals.
    loss, gradient = gradient_by_token(objective, batch)
    shuffled = batch_of_rows(batch, order)
    other_loss, other = gradient_by_token(objective, shuffled.batch)
    assert other_loss == pytest.approx(loss, abs=1e-9)
    assert torch.allclose(other, gradient[shuffled.token_index], rtol=1e-9, atol=1e-10)


def check_poison(objective, batch):
    """What stands under a mask is NaN, infinite or huge."""
    terms, gradient = run(objective, whole(objective, batch, filler=0.0, padding=2))
    assert bool(gradient.isfinite().all())
    for poison in POISON:
        found, poisoned = run(objective, whole(objective, batch, filler=poison, padding=2))
        assert torch.equal(poisoned, gradient)
        assert torch.equal(found.loss, terms.loss)
        for name, term in terms.terms.items():
            assert torch.equal(found.terms[name], term), name
        for name in ("flags", "ratio", "keep", "correction"):
            assert torch.equal(getattr(found, name), getattr(terms, name)), name


def check_padded(objective, batch):
    """The update as a padded [B, T] batch with gaps, from credit to gradient."""
    update = update_of(objective, batch)
    loss, gradient = gradient_of(objective, batch, [lay_out(update, range(len(batch.lengths)))])
    padded = _padded(batch)
    mask = padded.action_mask
    inputs = credit_inputs_from_padded(padded)
    assert torch.equal(inputs.row_offsets, batch.inputs.row_offsets)
    assert torch.equal(objective.credit(inputs).advantages, update.credit.advantages)

    def wide(values):
        return to_padded(values, mask)

    streams = streams_from_padded(
        replace(padded, action_mask=wide(update.is_trained)),
        advantages=wide(update.credit.advantages),
        token_weights=wide(update.main_weights),
    )
    streams = replace(streams, values={name: wide(one).reshape(-1) for name, one in batch.values.items()})
    before = {name: one for name, one in streams.logprobs.items() if name != "current"}
    made = make_stages(objective, replace(streams, logprobs=before), torch.Generator().manual_seed(1))
    current = streams.logprobs["current"].clone().requires_grad_()
    weights = {name: wide(one).reshape(-1) for name, one in update.weights.items()}
    terms = loss_terms(objective, at(replace(streams, made=made), current), weights)
    (found,) = torch.autograd.grad(terms.loss, current)
    assert float(terms.loss.detach()) == pytest.approx(loss, abs=1e-9)
    assert torch.allclose(found.view(mask.shape)[mask], gradient, rtol=1e-10, atol=1e-12)
    assert not found.view(mask.shape)[~mask].any()


def check_unchanged(objective, batch):
    """A policy that has not moved since it sampled, nor from its reference."""
    terms, _ = run(objective, whole(objective, batch))
    assert (terms.ratio == 1).all()
    assert torch.allclose(terms.correction, torch.ones_like(terms.correction), rtol=0, atol=1e-15)
    for name in terms.terms.keys() & {"kl", "drift"}:
        assert not terms.terms[name].any()


def check_quiet_rows(objective, batch):
    """Rows without any advantage have no gradient of the main component, unless the method says so."""
    if objective.acts_without_advantage:
        return
    packed = whole(replace(objective, regularizers=()), batch)
    _, gradient = run(replace(objective, regularizers=()), packed)
    mask, offsets = packed.streams.action_mask, packed.streams.row_offsets
    has_none = row_sum(torch.where(mask, packed.streams.advantages, 0.0).abs(), offsets) == 0
    assert not (row_sum(gradient.abs(), offsets) > 0)[has_none].any()


def check_states(objective, batch):
    """Controllers and memories stand still while a loss is computed."""
    held = [*controllers_of(objective).values(), *memories_of(objective).values()]
    before = [dict(one.state()) for one in held]
    gradient_by_token(objective, batch)
    assert [dict(one.state()) for one in held] == before


def check_single_precision(objective, batch):
    """Scores of float32 give the loss and the gradient of float64; False where a bound lies between the two."""
    packed = whole(objective, batch, filler=0.0)
    exact, slopes = run(objective, packed)
    streams = packed.streams
    assert streams.entropy is not None
    single = replace(
        streams,
        advantages=streams.advantages.float(),
        logprobs={name: one.float() for name, one in streams.logprobs.items()},
        values={name: one.float() for name, one in streams.values.items()},
        entropy=streams.entropy.float(),
    )
    found, gradient = run(objective, replace(packed, streams=single))
    assert found.loss.dtype == torch.float64
    if not torch.equal(found.flags, exact.flags):
        return False
    assert float(found.loss.detach()) == pytest.approx(float(exact.loss.detach()), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient.double(), slopes, rtol=1e-4, atol=1e-5)
    return True


def check_finite_differences(objective, batch, held: Held = "nothing"):
    """Central differences in every log-probability, away from kinks; what is detached is held."""
    terms = tuple(one for one in objective.regularizers if one.per_token not in OWN_GRADIENT)
    objective = replace(objective, regularizers=terms)
    packed = whole(objective, batch, filler=0.0)
    _, gradient = run(objective, packed)
    frozen = _holding(objective, packed.streams, held)
    current = packed.streams.logprobs["current"]

    def nudged(place, by):
        moved = current.index_add(0, torch.tensor([place]), torch.tensor([by], dtype=current.dtype))
        found = loss_terms(frozen, at(packed.streams, moved), packed.regularizer_weights)
        return float(found.loss), found.flags

    places = packed.streams.action_mask.nonzero().flatten().tolist()
    smooth = 0
    for place in places:
        (high, flags_up), (low, flags_down) = nudged(place, STEP), nudged(place, -STEP)
        if torch.equal(flags_up, flags_down):
            smooth += 1
            assert (high - low) / (2 * STEP) == pytest.approx(float(gradient[place]), abs=5e-8, rel=1e-5)
    assert smooth >= len(places) - 2


def _holding(objective, streams, held: Held):
    """The objective with detached weights, corrections and masks as they are at these streams."""
    clean = clean_streams(streams, objective.needs | {"current"}).streams
    ratio, correction, keep = objective.ratio(clean), objective.correction(clean), objective.keep(clean)
    base = clean.logprobs["current"]
    ratios = {
        "nothing": objective.ratio,
        "other tokens": lambda piece: ratio * torch.exp(piece.logprobs["current"] - base),
        "weights": lambda _: ratio,
    }
    surrogate = objective.surrogate
    if held == "gate":
        gated = surrogate(ratio, clean)
        gate = (gated.per_token / ratio).detach()
        surrogate = lambda moved, _: replace(gated, per_token=gate * moved)  # noqa: E731 - beside the other parts
    return replace(
        objective,
        ratio=ratios["nothing" if held == "gate" else held],
        correction=lambda _: correction,
        keep=lambda _: keep,
        surrogate=surrogate,
    )


def _padded(batch):
    """Rows of one width with gaps on either side and within; poison wherever no token stands."""
    inputs, lengths = batch.inputs, batch.lengths
    width = max(lengths, default=0) + 3
    draws = torch.Generator().manual_seed(sum(lengths))
    mask = torch.zeros(len(lengths), width, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, torch.randperm(width, generator=draws)[:length]] = True

    def wide(values, filler):
        return torch.full(mask.shape, filler, dtype=values.dtype).masked_scatter(mask, values)

    nan = float("nan")
    return PaddedBatch(
        action_mask=mask,
        rewards=inputs.rewards,
        group_index=inputs.group_index,
        logprobs={name: wide(one, nan) for name, one in {**inputs.logprobs, **batch.logprobs}.items()},
        values={name: one if name in ROW_STREAMS else wide(one, nan) for name, one in inputs.values.items()},
        of_rows={
            "source_index": inputs.source_index,
            "episode_index": inputs.episode_index,
            "is_truncated": inputs.is_truncated,
            **inputs.keys,
        },
        of_tokens={
            "step_rewards": wide(inputs.step_rewards, 0.0),
            "turn_index": wide(inputs.turn_index, 99),
            "state_index": wide(inputs.state_index, -1),
            "entropy": wide(batch.entropy, nan),
        },
    )
