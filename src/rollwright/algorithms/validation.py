"""Refuse a composition that means nothing, before anything is trained with it.

What its parts say of themselves is compared first (`contradictions.py`). What cannot be seen so is tried on a tiny
batch (`trial.py`): a stream that is read but not asked for, values of the wrong shape, weights that do not sum to their
closed form, an unchanged policy with a ratio, a gradient where no row has an advantage, a group size without contrast.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Generator, Tensor

from rollwright.algorithms.composition import LossTerms, kept_tokens, loss_terms
from rollwright.algorithms.contradictions import contradictions_of, row_advantage_conflict
from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.credit.groups import ZERO_CONTRAST
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.denominators.plain import row_lengths
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.describe import Description, describe
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import clean_streams
from rollwright.algorithms.objective import Credit, CreditInputs, Objective, TokenStreams, WeightFn
from rollwright.algorithms.rows import row_max, row_min, row_sum
from rollwright.algorithms.stages import make_stages
from rollwright.algorithms.streams import BEFORE_CREDIT
from rollwright.algorithms.trial import inputs_for, scatter, stages_of, trial_streams, without

__all__ = ["check_objective"]

_NEEDS = frozenset({"behavior", "proximal", "reference", "teacher", "values", "entropy"})
_MOVED = 0.05
"""Nats by which the trial policy is moved, at random."""
_EQUAL = 1e-5
"""Relative distance of ratios that are equal in float32."""


def check_objective(objective: Objective, *, group_size: int) -> None:
    """Refuse a composition that cannot be trained or contradicts itself, with what to change.

    Args:
        objective: the composition.
        group_size: attempts at one task in every full group of the run.
    """
    if group_size < 1:
        raise ObjectiveError(f"group_size is {group_size}; a group has at least 1 attempt.")
    _check_names(objective)
    described = describe(objective)
    if found := contradictions_of(described):
        raise ObjectiveError(" ".join(found))
    inputs = inputs_for(objective.credit, group_size, _sources(objective.weights))
    credit = objective.credit(inputs)
    _check_credit(objective, credit, inputs, group_size)
    _check_reads(objective, inputs)
    _check_reward_divergence(objective, inputs)
    _check_row_advantages(described, credit, inputs)
    unchanged = _Trial.of(objective, inputs, credit, distance=0.0)
    _check_shapes(objective, unchanged.streams)
    _check_stages(objective, unchanged)
    _check_unchanged(objective, unchanged)
    moved = _Trial.of(objective, inputs, credit, distance=_MOVED)
    _check_row_ratio(objective, described, moved.streams)
    _check_moved(objective, moved, credit, inputs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Trial:
    """An update on the trial batch."""

    streams: TokenStreams
    weights: Mapping[str, Tensor]
    """Component to (T,)."""

    @classmethod
    def of(cls, objective: Objective, inputs: CreditInputs, credit: Credit, *, distance: float) -> "_Trial":
        """Streams, stages and weights, in the order in which a run makes them."""
        bare = trial_streams(objective, inputs, credit, distance=distance)
        is_trained = _is_trained(bare, credit)
        rows = _rows_of_trained(inputs, is_trained[bare.action_mask])
        bare = replace(bare, action_mask=bare.action_mask & is_trained)
        rules = _rules(objective)
        keep = _kept(objective, bare) if any(rule.counting == "kept" for rule in rules.values()) else None
        weights = {name: scatter(_weigh(rule, rows, keep), bare.action_mask) for name, rule in rules.items()}
        streams = replace(bare, token_weights=weights[objective.component])
        before = replace(streams, logprobs={name: one for name, one in streams.logprobs.items() if name != "current"})
        made = make_stages(objective, before, Generator().manual_seed(2))
        return cls(streams=replace(streams, made=made), weights=weights)

    def loss(self, objective: Objective) -> LossTerms:
        """The loss of the whole batch."""
        return loss_terms(objective, self.streams, self.weights)

    def gradient(self, terms: Tensor) -> Tensor:
        """(T,) gradient of the sum of (T,) terms in the current policy; 0 where there is none."""
        current = self.streams.logprobs["current"]
        found = torch.autograd.grad(terms.sum(), current, allow_unused=True)[0] if terms.requires_grad else None
        return torch.zeros_like(current) if found is None else found


def _check_names(objective: Objective) -> None:
    if unknown := objective.needs - _NEEDS:
        raise ObjectiveError(f"{objective.name} needs {sorted(unknown)}; an objective may need {sorted(_NEEDS)}.")
    if unknown := objective.before_credit - BEFORE_CREDIT:
        raise ObjectiveError(
            f"{objective.name} has {sorted(unknown)} in `before_credit`; a learner makes {sorted(BEFORE_CREDIT)} "
            "before credit."
        )
    components = [objective.component, *(one.component for one in objective.regularizers)]
    if len(set(components)) < len(components):
        raise ObjectiveError(f"{objective.name} has components {components}; each name may stand once.")
    if any(rule.counting == "kept" for rule in _rules(objective).values()) and "proximal" not in objective.needs:
        raise ObjectiveError(
            f"{objective.name} counts kept tokens without proximal scores: in bypass mode what is kept is known only "
            "after the weights are made. Count `structural` tokens, or score the proximal policy."
        )
    for one in objective.regularizers:
        if not torch.tensor(coefficient_of(one.coefficient)).isfinite():
            raise ObjectiveError(f"the coefficient of {one.component} in {objective.name} is {one.coefficient}.")


def _check_credit(objective: Objective, credit: Credit, inputs: CreditInputs, group_size: int) -> None:
    num_tokens = int(inputs.row_offsets[-1])
    if credit.advantages.shape != (num_tokens,):
        raise ObjectiveError(
            f"the credit of {objective.name} gave shape {tuple(credit.advantages.shape)} for {num_tokens} action "
            "tokens; give one advantage a token."
        )
    if not bool(credit.advantages.isfinite().all()):
        raise ObjectiveError(
            f"the credit of {objective.name} gives advantages that are not finite to a batch with an attempt that was "
            "not scored (reward NaN); such a row has advantage 0 and leaves the statistics of its group."
        )
    if not bool(credit.advantages.any()):
        raise ObjectiveError(
            f"{objective.name} gives no advantage in groups of {group_size} with right and wrong attempts: nothing "
            "would ever be trained. Credit that compares attempts needs a group of at least 2, and pass@k one of at "
            "least k."
        )


def _check_reads(objective: Objective, inputs: CreditInputs) -> None:
    """The credit on what a run would make for the objective."""
    try:
        objective.credit(without(inputs, objective.needs, objective.before_credit))
    except ObjectiveError as error:
        raise ObjectiveError(
            f"the credit of {objective.name} reads a stream that its `needs` {sorted(objective.needs)} and "
            f"`before_credit` {sorted(objective.before_credit)} do not ask for, so that no run would make it: {error}"
        ) from error


def _check_reward_divergence(objective: Objective, inputs: CreditInputs) -> None:
    for stage in stages_of(objective.credit):
        if stage.func is not kl_in_reward or "credit" not in stage.keywords:
            continue
        inner = cast("Callable[[CreditInputs], Credit]", stage.keywords["credit"])
        given = cast("Credit", stage(inputs))
        if torch.equal(given.advantages, inner(inputs).advantages):
            raise ObjectiveError(
                f"the KL in the reward of {objective.name} changes no advantage: its coefficient is 0, or the credit "
                'inside it reads no reward of a token. Put it at place="row_rewards" or place="advantages".'
            )


def _check_row_advantages(described: Description, credit: Credit, inputs: CreditInputs) -> None:
    (surrogate,), (estimator,) = described.of_role("surrogate"), described.of_role("credit")
    if all("row_advantage" not in one.facts for one in surrogate.walk()):
        return
    everywhere = torch.ones_like(credit.advantages, dtype=torch.bool)
    highest = row_max(credit.advantages, everywhere, inputs.row_offsets)
    lowest = row_min(credit.advantages, everywhere, inputs.row_offsets)
    if bool((highest > lowest).any()):
        raise ObjectiveError(row_advantage_conflict(described.name, surrogate.name, estimator.name))


def _check_row_ratio(objective: Objective, described: Description, streams: TokenStreams) -> None:
    (surrogate,), (ratio,) = described.of_role("surrogate"), described.of_role("ratio")
    if all("takes_row_ratio" not in one.facts for one in surrogate.walk()):
        return
    clean = clean_streams(streams, objective.needs | {"current"}).streams
    values = objective.ratio(clean).detach()
    highest = row_max(values, clean.action_mask, clean.row_offsets)
    lowest = row_min(values, clean.action_mask, clean.row_offsets)
    if bool((highest - lowest > _EQUAL * highest.abs()).any()):
        raise ObjectiveError(
            f"the surrogate of {objective.name} ({surrogate.name}) takes one ratio a row, but {ratio.name} gives "
            "tokens of a row different ones: take a ratio of rows, such as sequence_mean_ratio, or another surrogate."
        )


def _check_shapes(objective: Objective, streams: TokenStreams) -> None:
    clean = clean_streams(streams, objective.needs | {"current"}).streams
    ratio = objective.ratio(clean)
    keep, surrogate = objective.keep(clean), objective.surrogate(ratio, clean)
    given = {
        "ratio": ratio,
        "keep": keep.keep,
        "flags of the keep": keep.flags,
        "correction": objective.correction(clean),
        "surrogate": surrogate.per_token,
        "flags of the surrogate": surrogate.flags,
        **{f"term {one.component}": one.per_token(clean) for one in objective.regularizers},
    }
    for what, stream in given.items():
        if stream.shape != clean.action_mask.shape:
            raise ObjectiveError(
                f"the {what} of {objective.name} gave shape {tuple(stream.shape)} for {len(clean.action_mask)} tokens; "
                "give one value a token."
            )
    if keep.keep.dtype is not torch.bool:
        raise ObjectiveError(f"the keep of {objective.name} is {keep.keep.dtype}; it is a mask of bool.")


def _check_stages(objective: Objective, trial: _Trial) -> None:
    for stage in objective.stages:
        left = {name: one for name, one in trial.streams.made.items() if name != stage.name}
        try:
            loss_terms(objective, replace(trial.streams, made=left), trial.weights)
        except (ObjectiveError, KeyError):
            continue
        raise ObjectiveError(f"nothing in {objective.name} reads what its stage {stage.name!r} makes; take it out.")


def _check_unchanged(objective: Objective, trial: _Trial) -> None:
    found = trial.loss(objective)
    if bool((found.ratio != 1).any()):
        raise ObjectiveError(f"the ratio of {objective.name} is not 1 for an unchanged policy.")
    gradient = trial.gradient(found.terms[objective.component])
    if not bool(gradient.any()):
        raise ObjectiveError(
            f"the surrogate of {objective.name} has no gradient on an unchanged policy; a surrogate of the ratio needs "
            "a ratio that has one, such as token_ratio."
        )
    if not bool(gradient.isfinite().all()):
        raise ObjectiveError(f"the gradient of {objective.name} is not finite on an unchanged policy.")


def _check_moved(objective: Objective, trial: _Trial, credit: Credit, inputs: CreditInputs) -> None:
    found = trial.loss(objective)
    gradient = trial.gradient(found.terms[objective.component])
    if not bool(found.loss.isfinite()) or not bool(gradient.isfinite().all()):
        raise ObjectiveError(f"the loss or the gradient of {objective.name} is not finite once the policy has moved.")
    for one in objective.regularizers:
        if not found.terms[one.component].requires_grad:
            raise ObjectiveError(
                f"the term {one.component} of {objective.name} has no gradient; what it reads does not depend on the "
                "current policy."
            )
    has_none = row_sum(credit.advantages.abs(), inputs.row_offsets) == 0
    moves = row_sum(gradient.detach().abs(), trial.streams.row_offsets) > 0
    if not objective.acts_without_advantage and bool((has_none & moves).any()):
        raise ObjectiveError(
            f"{objective.name} has a gradient in rows without any advantage, such as groups without contrast, which a "
            "run skips unless the objective says `acts_without_advantage=True`; or take a surrogate that weighs by the "
            "advantage."
        )


def _rules(objective: Objective) -> dict[str, WeightFn]:
    """Component to its denominator."""
    return {objective.component: objective.weights, **{one.component: one.weights for one in objective.regularizers}}


def _weigh(rule: WeightFn, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
    counted = keep if rule.counting == "kept" else None
    weights = rule(inputs, counted)
    due = rule.weight_sum(row_lengths(inputs, counted))
    num_tokens = int(inputs.row_offsets[-1])
    if weights.shape != (num_tokens,) or abs(float(weights.sum()) - due) > 1e-9 * max(1.0, abs(due)):
        raise ObjectiveError(
            f"the weights of {rule.name} have shape {tuple(weights.shape)} and sum {float(weights.sum())}; the closed "
            f"form says {(num_tokens,)} and {due}."
        )
    return weights


def _kept(objective: Objective, streams: TokenStreams) -> Tensor:
    """(N,) which action tokens stay, decided before any weight is made."""
    before = replace(streams, logprobs={name: one for name, one in streams.logprobs.items() if name != "current"})
    try:
        return kept_tokens(objective, before).keep[streams.action_mask]
    except ObjectiveError as error:
        raise ObjectiveError(
            f"{objective.name} counts kept tokens, but what it keeps cannot be told before the weights are made: "
            f"{error} Count `structural` tokens, or keep by proximal over behavior."
        ) from error


def _is_trained(streams: TokenStreams, credit: Credit) -> Tensor:
    """(T,) bool, False in rows that a rule withheld; those without contrast stay."""
    withheld = [row for row, reason in credit.untrained.items() if reason != ZERO_CONTRAST]
    stays = torch.ones(len(streams.row_offsets) - 1, dtype=torch.bool)
    stays[withheld] = False
    return stays.repeat_interleave(streams.row_offsets.diff())


def _rows_of_trained(inputs: CreditInputs, is_trained: Tensor) -> CreditInputs:
    """The rows with the trained ones, (N,) bool, of their action tokens: all that a denominator looks at."""
    running = torch.cat([torch.zeros(1, dtype=torch.int64), is_trained.to(torch.int64).cumsum(0)])
    return replace(
        inputs,
        row_offsets=running[inputs.row_offsets],
        step_rewards=inputs.step_rewards[is_trained],
        turn_index=inputs.turn_index[is_trained],
        state_index=inputs.state_index[is_trained],
    )


def _sources(weights: WeightFn) -> tuple[int, ...]:
    """Task sources that the weights know; empty where they know any."""
    return tuple(weights.targets) if isinstance(weights, SourceBalance) else ()
