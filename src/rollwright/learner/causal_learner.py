"""The learner: a step's batch in, new weights out, and per token what each update did.

    StepBatch ──plan_updates──► UpdatePlan ──cut──► MicroBatch ──chunked scores──► loss of a piece ──► gradient, summed
        └── frozen streams (proximal, reference) are scored before the first update, or before credit, and stay

Blocking by design: the runtime calls it in a thread of its own. It holds no clock and draws nothing at random.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from rollwright.algorithms.composition import LossTerms, loss_terms
from rollwright.algorithms.controllers import coefficients_of, controllers_of
from rollwright.algorithms.objective import Objective, TokenStreams
from rollwright.batches import (
    MicroBatch,
    ReferenceScores,
    StepBatch,
    UpdateOutcome,
    UpdatePlan,
    components_of,
    cut,
    minibatches,
    observed_metrics,
    plan_updates,
    with_score,
)
from rollwright.learner.dense import Activations
from rollwright.learner.errors import LearnerError, NonFiniteError
from rollwright.learner.forward import Scorer, deterministic, make_scorer
from rollwright.learner.logprobs import TokenScores
from rollwright.learner.models import Precision
from rollwright.learner.optimizer import Optimizer, OptimizerSettings, make_optimizer
from rollwright.learner.outcome import CompletedUpdate, StepOutcome, StreamScores, TokenLedger, UpdateFacts
from rollwright.learner.ranks import own_share, sum_gradients
from rollwright.learner.scoring import MEASURES, Measure, score_streams
from rollwright.learner.shares import shares_of
from rollwright.learner.state import (
    LearnerCounters,
    LearnerState,
    StateCopy,
    copy_state,
    named_weights,
    restore_state,
    save_state,
    tensor_specs,
)
from rollwright.record.engine import WeightsManifest

__all__ = ["CausalLearner", "LearnerSettings", "make_learner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSettings:
    """How a batch becomes updates."""

    optimizer: OptimizerSettings
    token_budget: int = 8192
    """Tokens of a micro-batch; changes memory and speed, never the gradient."""
    num_minibatches: int = 1
    num_epochs: int = 1
    precision: Precision = Precision.FP32
    """Of the products; weights, gradients, AdamW and logits are fp32 in either."""
    policy: str = "policy"
    """Whose weights these are."""
    activations: Activations = Activations.KEPT
    """Kept for the backward pass, or made again there for less memory; changes no number."""
    max_bad_updates: int = 5
    """Updates in a row with a loss or gradient that is not finite, after which the run stops."""

    def __post_init__(self) -> None:
        """Refuse counts below 1."""
        if min(self.token_budget, self.num_minibatches, self.num_epochs, self.max_bad_updates) < 1:
            raise LearnerError(
                f"a learner has token_budget={self.token_budget}, num_minibatches={self.num_minibatches}, num_epochs="
                f"{self.num_epochs}, max_bad_updates={self.max_bad_updates}; each is at least 1."
            )


@dataclass(slots=True, kw_only=True, eq=False)
class CausalLearner:
    """Trains one causal language model; made by `make_learner`."""

    scorer: Scorer
    optimizer: Optimizer
    settings: LearnerSettings
    reference: Scorer | None = None
    """A frozen model for KL terms; made by `freeze_reference` when an objective needs one."""
    counters: LearnerCounters = field(default_factory=LearnerCounters)

    @property
    def model(self) -> PreTrainedModel:
        """The model that is trained, fp32."""
        return self.scorer.model

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.model.device

    def weights(self) -> Mapping[str, Tensor]:
        """Every weight by name, tied ones under each name: views, which the next update changes. Copy to publish."""
        return named_weights(self.model)

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        """What `weights` holds now, each tensor with its digest; hashes every byte, so call it once a publication.

        Args:
            version: the step after which these weights stand.
            update: the last optimizer update of that step.

        Returns:
            Of a full publication from memory.
        """
        policy = self.settings.policy
        return WeightsManifest(
            policy=policy,
            version=version,
            update=update,
            kind="full",
            base_version=None,
            location=f"memory:{policy}/{version}",
            tensors=tensor_specs(self.weights()),
        )

    def save(self, folder: Path) -> None:
        """Write a checkpoint: a Hugging Face folder with `training_state/` in it, complete or not there at all."""
        save_state(self._state(), folder)

    def snapshot(self) -> StateCopy:
        """The state as it stands, to be written while the next update is made; its `write` makes what `save` makes."""
        return copy_state(self._state())

    def restore(self, folder: Path) -> None:
        """Take a checkpoint back: weights, optimizer, schedule, counters and reference are those that were saved."""
        reference = restore_state(self._state(), folder)
        self.reference = None if reference is None else self._frozen(reference)

    def _state(self) -> LearnerState:
        reference = None if self.reference is None else self.reference.model
        return LearnerState(model=self.model, optimizer=self.optimizer, counters=self.counters, reference=reference)

    def freeze_reference(self) -> None:
        """From now on the reference is a copy of the weights as they stand."""
        self.reference = self._frozen(deepcopy(self.model))

    def _frozen(self, model: PreTrainedModel) -> Scorer:
        for parameter in model.parameters():
            parameter.requires_grad_(False)  # noqa: FBT003 - torch's own
        nn.Module.to(model, self.device)
        return replace(self.scorer, model=model.eval())

    def train(self, batch: StepBatch, objective: Objective, *, first_update: int) -> StepOutcome:
        """Make all updates of a step.

        Args:
            batch: whole groups with credit.
            objective: what to maximise.
            first_update: number of the first optimizer update of this step, counted from 1 over the run.

        Returns:
            A plan and an outcome for each of epochs × minibatches. An update without a trainable token, or with a loss
            or gradient that is not finite, is skipped and says so; it has its number all the same. The objective's
            controllers observe every update that was applied before the next one is made.
        """
        self._refuse_unmet_needs(batch, objective)
        settings = self.settings
        with deterministic(self.device):
            plans = plan_updates(
                self._with_frozen_streams(batch, objective),
                objective,
                first_update=first_update,
                num_minibatches=settings.num_minibatches,
                num_epochs=settings.num_epochs,
            )
            updates = tuple(CompletedUpdate(plan, self._followed(plan, objective)) for plan in plans)
        self.counters.num_steps += 1
        return StepOutcome(step=batch.step, updates=updates)

    def score(self, batch: StepBatch) -> StreamScores:
        """Score the trained tokens of a batch under the weights as they stand; changes nothing."""
        found = score_streams(
            self.scorer, self._whole_plans(batch), ("logprobs", "entropy"), token_budget=self.settings.token_budget
        )
        return StreamScores(logprobs=found["logprobs"], entropy=found["entropy"])

    def score_reference(self, batch: StepBatch) -> ReferenceScores:
        """Score the trained tokens of a batch under the frozen reference, in micro-batches; changes nothing.

        Args:
            batch: of a step, trained or not.

        Returns:
            What metrics compare the policy with, where the objective reads no reference.
        """
        reference = self.reference
        if reference is None:
            raise LearnerError(
                "there is no reference to score under; call freeze_reference while the reference's weights stand."
            )
        found = score_streams(
            reference, self._whole_plans(batch), ("logprobs",), token_budget=self.settings.token_budget
        )
        weights = {tensor.data_ptr(): tensor for tensor in named_weights(reference.model).values()}
        return ReferenceScores(
            logprobs=found["logprobs"], weight_bytes=sum(tensor.nbytes for tensor in weights.values())
        )

    def score_before_credit(self, draft: StepBatch, objective: Objective) -> StepBatch:
        """The draft with the streams that the objective's credit reads, under the weights as they stand.

        Args:
            draft: a batch that is laid out and has no credit.
            objective: its `before_credit` says which streams; those that the draft has stay.

        Returns:
            The draft itself where nothing is missing, else with a score of every token that credit sees. The updates
            of the step take these proximal and reference scores as theirs.
        """
        if not objective.before_credit - draft.scores.keys():
            return draft
        self._refuse_unmet_needs(draft, objective)
        acting = self._whole_plans(replace(draft, action_mask=draft.acts))
        return self._with_streams(draft, acting, objective.before_credit)

    def _refuse_unmet_needs(self, batch: StepBatch, objective: Objective) -> None:
        if "values" in objective.needs:
            raise LearnerError(f"{objective.name} needs values; this learner trains a policy and has no critic.")
        if "teacher" in objective.needs and "teacher" not in batch.scores:
            raise LearnerError(f"{objective.name} needs teacher scores; the batch has none. Add them with with_score.")
        if "reference" in objective.reads and "reference" not in batch.scores and self.reference is None:
            raise LearnerError(
                f"{objective.name} needs reference scores; call freeze_reference while the reference's weights stand, "
                "or add the scores with with_score."
            )
        if batch.support is not None or batch.routed_experts is not None:
            raise LearnerError(
                "the batch was sampled from a truncated distribution (top-p, top-k or min-p) or by routed experts; "
                "this learner scores the whole vocabulary. Sample with top_p=1, top_k=0, min_p=0."
            )

    def _with_frozen_streams(self, batch: StepBatch, objective: Objective) -> StepBatch:
        """The batch with the streams that no update of this step may change, made before the first one."""
        counts_kept = any(weights.counting == "kept" for _, weights in components_of(objective))
        own: set[str] = set()
        if counts_kept or objective.stages or not self._makes_one_update:
            own |= objective.needs & {"proximal"}
        if objective.stages:
            own |= objective.needs & {"entropy"}
        names = own | (objective.needs & {"reference"})
        if not names - batch.scores.keys():
            return batch
        # Cut as the updates will be: the first update then has a ratio of 1 to the last bit.
        shares = [shares_of(plan, objective) for plan in self._bare_plans(batch)]
        return self._with_streams(batch, [part for one in shares for part in (one.trained, one.quiet)], names)

    def _with_streams(self, batch: StepBatch, plans: Sequence[UpdatePlan], names: Collection[str]) -> StepBatch:
        """The batch with those of these streams that it lacks, each scored once over the rows of the plans."""
        missing = set(names) - batch.scores.keys()
        of_reference = missing & {"reference"}
        for scorer, wanted in ((self.scorer, missing - of_reference), (self.reference, of_reference)):
            if scorer is None or not wanted:
                continue
            measures: set[Measure] = {MEASURES[name] for name in wanted}
            found = score_streams(scorer, plans, measures, token_budget=self.settings.token_budget)
            for name in sorted(wanted):
                batch = with_score(batch, name, found[MEASURES[name]])
        return batch

    def _bare_plans(self, batch: StepBatch) -> list[UpdatePlan]:
        """The rows of each update, without weights."""
        parts = minibatches(batch, self.settings.num_minibatches)
        return [
            UpdatePlan(batch=batch, update=0, rows=rows, token_weights={}, weight_sums={}, denominators={})
            for rows in parts
        ]

    def _whole_plans(self, batch: StepBatch) -> list[UpdatePlan]:
        """This rank's rows of each update, quiet or not."""
        return [own_share(plan) for plan in self._bare_plans(batch)]

    def _cut(self, plan: UpdatePlan) -> tuple[MicroBatch, ...]:
        budget, counted = self.settings.token_budget, self.scorer.counted
        return cut(plan, token_budget=budget, device=self.device, counted=counted)

    def _followed(self, plan: UpdatePlan, objective: Objective) -> UpdateOutcome:
        """An update, and what the objective's controllers learn from it: the next one has their new coefficients."""
        coefficients = coefficients_of(objective)
        outcome = replace(self._update(plan, objective), coefficients=coefficients)
        controllers = controllers_of(objective)
        if controllers and outcome.is_applied:
            metrics = observed_metrics(plan, outcome, objective)
            for controller in controllers.values():
                controller.observe(metrics)
        return outcome

    def _update(self, plan: UpdatePlan, objective: Objective) -> UpdateOutcome:
        ledger = TokenLedger(len(plan.batch.token_ids), tuple(name for name, _ in components_of(objective)))
        share = shares_of(plan, objective)
        for micro in self._cut(share.trained):
            self._terms(micro, objective, ledger).loss.backward()
        with torch.no_grad():
            for micro in self._cut(share.quiet):
                self._terms(micro, objective, ledger)
        ledger.merge(self.device)
        sum_gradients(tuple(self.optimizer.parameters.values()))
        facts = self._step_weights(plan, ledger)
        proximal = frozen_proximal(plan.batch, objective)
        outcome = ledger.outcome(plan, facts, proximal)
        is_bypassing = objective.needs & {"behavior", "proximal"} == frozenset({"behavior"})
        if proximal is None and not is_bypassing and self._makes_one_update:
            return replace(outcome, proximal=outcome.current, current=None)
        return outcome

    @property
    def _makes_one_update(self) -> bool:
        return self.settings.num_minibatches * self.settings.num_epochs == 1

    def _terms(self, micro: MicroBatch, objective: Objective, ledger: TokenLedger) -> LossTerms:
        """The loss of a piece, with what it says of each token written down."""
        places = micro.action_mask.nonzero().squeeze(1)
        scores = self.scorer.score(micro, places)
        terms = loss_terms(objective, streams_of(micro, objective, places, scores), micro.token_weights)
        ledger.put_scores(micro.token_index[places], scores)
        ledger.put_terms(micro, terms)
        return terms

    def _step_weights(self, plan: UpdatePlan, ledger: TokenLedger) -> UpdateFacts:
        """Move the weights by the summed gradient, or leave all as it was and say why."""
        if not ledger.is_scored.any():
            report = self.optimizer.skip()
            return UpdateFacts(grad_norm=0.0, learning_rate=report.learning_rate, skipped_reason="no trainable token")
        report = self.optimizer.update() if math.isfinite(ledger.loss) else self.optimizer.refuse("loss")
        if report.bad_tensor is None:
            self.counters.num_bad_in_a_row = 0
            return UpdateFacts(
                grad_norm=report.grad_norm,
                learning_rate=report.learning_rate,
                skipped_reason=None,
                update_norm=report.update_norm,
            )
        self.counters.num_bad_in_a_row += 1
        reason = f"not finite: {report.bad_tensor}; trajectories {', '.join(suspects(plan, ledger))}"
        if self.counters.num_bad_in_a_row >= self.settings.max_bad_updates:
            raise NonFiniteError(
                f"{self.counters.num_bad_in_a_row} updates in a row were skipped, the last, update {plan.update}, "
                f"{reason}. The weights are those before them; lower the learning rate, or look at these trajectories."
            )
        return UpdateFacts(grad_norm=report.grad_norm, learning_rate=report.learning_rate, skipped_reason=reason)


def streams_of(micro: MicroBatch, objective: Objective, places: Tensor, scores: TokenScores) -> TokenStreams:
    """The streams that the loss of a piece reads.

    Args:
        micro: t tokens.
        objective: its `needs` say which streams.
        places: (n,) int64 places of the trained tokens.
        scores: (n,) of the weights that are differentiated.

    Returns:
        (t,) streams, 0 where a token is not trained. Without frozen proximal scores, proximal is the detached current.
    """
    blank = scores.logprobs.new_zeros(len(micro.token_ids))
    current = blank.index_copy(0, places, scores.logprobs)
    logprobs = {name: micro.scores[name] for name in ("proximal", "reference", "teacher") if name in micro.scores}
    logprobs = {"proximal": current.detach(), **logprobs, "behavior": micro.behavior, "current": current}
    needed = objective.needs | {"current"}
    return TokenStreams(
        row_offsets=micro.row_offsets,
        action_mask=micro.action_mask,
        advantages=micro.advantages,
        token_weights=micro.token_weights[objective.component],
        policy_versions=micro.policy_versions,
        logprobs={name: stream for name, stream in logprobs.items() if name in needed},
        values={},
        entropy=blank.index_copy(0, places, scores.entropy) if "entropy" in objective.needs else None,
        made=micro.made,
    )


def frozen_proximal(batch: StepBatch, objective: Objective) -> NDArray[np.float32] | None:
    """(T,) proximal scores that credit or loss read, NaN where a token is not trained; None: not scored beforehand."""
    proximal = batch.scores.get("proximal") if "proximal" in objective.reads else None
    return None if proximal is None else np.where(batch.action_mask, proximal, np.float32(np.nan))


def suspects(plan: UpdatePlan, ledger: TokenLedger) -> tuple[str, ...]:
    """Trajectories whose scores are not finite; where all are, those of the update. At most five, in order."""
    batch = plan.batch
    is_bad = ~np.isfinite(ledger.scores[0])
    rows = [row for row in plan.rows if is_bad[batch.row_offsets[row] : batch.row_offsets[row + 1]].any()]
    members = sorted({batch.rows[row].member for row in rows or plan.rows})
    return tuple(batch.members[member].trajectory_id for member in members[:5])


def make_learner(model: PreTrainedModel, settings: LearnerSettings) -> CausalLearner:
    """A learner that has made no update.

    Args:
        model: becomes fp32 and is trained in place; its family decides the path (`make_scorer`).
        settings: how a batch becomes updates.

    Returns:
        Without a reference model.
    """
    scorer = make_scorer(model, settings.precision, settings.activations)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    return CausalLearner(scorer=scorer, optimizer=make_optimizer(parameters, settings.optimizer), settings=settings)
