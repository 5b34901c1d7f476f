"""One optimizer update: clip the summed gradient, then AdamW at the schedule's rate; or skip and change nothing.

The schedule counts updates that were applied, from 1; a skipped update advances neither it nor AdamW.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import AdamW

from rollwright.learner.errors import CheckpointError, LearnerError

__all__ = ["Optimizer", "OptimizerSettings", "Schedule", "ScheduleShape", "UpdateReport", "make_optimizer"]


class ScheduleShape(Enum):
    """What the rate does behind the warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The learning rate of each update."""

    learning_rate: float
    """The highest."""
    shape: ScheduleShape = ScheduleShape.CONSTANT
    warmup_updates: int = 0
    """The rate rises linearly over these and is never 0: update u of W has u/W of the highest."""
    total_updates: int = 0
    """Where `linear` and `cosine` would reach the final rate: one update behind the last. Unused by `constant`."""
    final_ratio: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a schedule that goes nowhere."""
        if not (math.isfinite(self.learning_rate) and self.learning_rate >= 0) or self.warmup_updates < 0:
            raise LearnerError(
                f"a schedule has learning_rate={self.learning_rate}, warmup_updates={self.warmup_updates}; "
                "both are finite and at least 0."
            )
        if self.shape is not ScheduleShape.CONSTANT and self.total_updates < max(1, self.warmup_updates):
            raise LearnerError(
                f"a {self.shape.value} schedule over {self.total_updates} updates has {self.warmup_updates} of warm-up;"
                " total_updates counts optimizer updates (steps × epochs × minibatches), warm-up included."
            )

    def rate(self, update: int) -> float:
        """Of the update with this number, counted from 1; behind `total_updates` the last one's.

        Args:
            update: applied updates so far, this one included.

        Returns:
            The learning rate.
        """
        if update <= self.warmup_updates:
            return self.learning_rate * update / self.warmup_updates
        if self.shape is ScheduleShape.CONSTANT:
            return self.learning_rate
        span = max(1, self.total_updates - self.warmup_updates)
        progress = min(update - 1 - self.warmup_updates, span - 1) / span
        match self.shape:
            case ScheduleShape.LINEAR:
                share = 1 - progress
            case ScheduleShape.COSINE:
                share = 0.5 * (1 + math.cos(math.pi * progress))
            case _:
                assert_never(self.shape)
        return self.learning_rate * (self.final_ratio + (1 - self.final_ratio) * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """AdamW, its schedule, and when an update is refused."""

    schedule: Schedule
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    """Of matrices; norms and biases do not decay."""
    clip_norm: float = 1.0
    """Largest global norm of the gradient; inf never clips."""

    def __post_init__(self) -> None:
        """Refuse numbers outside their range."""
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1) or self.epsilon <= 0 or self.weight_decay < 0:
            raise LearnerError(
                f"AdamW has betas ({self.beta1}, {self.beta2}), epsilon {self.epsilon} and weight_decay "
                f"{self.weight_decay}; allowed are betas in [0, 1), epsilon > 0, weight_decay >= 0."
            )
        if not self.clip_norm > 0:
            raise LearnerError(f"clip_norm is {self.clip_norm}; it is above 0, and inf where nothing is clipped.")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """What one call of `Optimizer.update` did."""

    grad_norm: float
    """Before clipping."""
    learning_rate: float
    """Of this update; where it was skipped, what it would have had."""
    bad_tensor: str | None
    """Name of the first parameter whose gradient is not finite; None: the update was applied."""
    update_norm: float = 0.0
    """Of the change of all weights together; 0 where none moved."""


@dataclass(slots=True, kw_only=True, eq=False)
class Optimizer:
    """Holds AdamW's state; the only thing that writes weights."""

    parameters: Mapping[str, Parameter]
    settings: OptimizerSettings
    adamw: AdamW
    num_applied: int = 0
    num_skipped: int = field(default=0)

    def update(self) -> UpdateReport:
        """Use the gradients that the parameters hold, then drop them; one that holds none has a gradient of 0.

        Returns:
            Whether weights moved. A gradient that is not finite moves nothing: weights, AdamW and schedule stay.
        """
        rate = self.settings.schedule.rate(self.num_applied + 1)
        grads: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            grads[name] = parameter.grad
        norm = torch.nn.utils.get_total_norm(list(grads.values()))
        grad_norm = float(norm)
        bad: str | None = None
        update_norm = 0.0
        if math.isfinite(grad_norm):
            if grad_norm > self.settings.clip_norm:
                torch.nn.utils.clip_grads_with_norm_(self.parameters.values(), self.settings.clip_norm, norm)
            for group in self.adamw.param_groups:
                group["lr"] = rate
            self.adamw.step()
            self.num_applied += 1
            update_norm = self._moved(rate)
        else:
            bad = next((name for name, grad in grads.items() if not bool(grad.isfinite().all())), "the norm overflows")
            self.num_skipped += 1
        self.clear()
        return UpdateReport(grad_norm=grad_norm, learning_rate=rate, bad_tensor=bad, update_norm=update_norm)

    @torch.no_grad()
    def _moved(self, rate: float) -> float:
        """Norm of the last change of the weights, from AdamW's moments: no copy of the weights is held for it."""
        settings, norms = self.settings, list[Tensor]()
        low, high = 1 - settings.beta1**self.num_applied, 1 - settings.beta2**self.num_applied
        for group in self.adamw.param_groups:
            decay = group["weight_decay"]
            for parameter in group["params"]:
                state = self.adamw.state[parameter]
                spread = state["exp_avg_sq"].div(high).sqrt_().add_(settings.epsilon)
                change = state["exp_avg"].div(low).div_(spread)
                if decay:
                    # θ' = (1 − η·d)·θ − η·u, so that θ is (θ' + η·u)/(1 − η·d).
                    change = change.add(parameter.detach().add(change, alpha=rate), alpha=decay / (1 - rate * decay))
                norms.append(change.norm())
        return rate * float(torch.stack(norms).norm())

    def skip(self) -> UpdateReport:
        """Count an update that has nothing to train, changing nothing else."""
        self.num_skipped += 1
        self.clear()
        rate = self.settings.schedule.rate(self.num_applied + 1)
        return UpdateReport(grad_norm=0.0, learning_rate=rate, bad_tensor=None)

    def refuse(self, bad_tensor: str) -> UpdateReport:
        """Skip an update whose numbers are not finite for a reason seen outside, changing nothing else."""
        report = self.skip()
        return UpdateReport(grad_norm=math.nan, learning_rate=report.learning_rate, bad_tensor=bad_tensor)

    def clear(self) -> None:
        """Drop all gradients."""
        self.adamw.zero_grad(set_to_none=True)

    def state_tensors(self) -> dict[str, Tensor]:
        """AdamW's moments as `moment/parameter`; views, not copies. Empty before the first update."""
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            state = self.adamw.state.get(parameter)
            if state:
                tensors |= {f"{key}/{name}": state[key] for key in ("step", "exp_avg", "exp_avg_sq")}
        return tensors

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take what `state_tensors` gave; refused where it is of other parameters."""
        expected = {f"{key}/{name}" for name in self.parameters for key in ("step", "exp_avg", "exp_avg_sq")}
        if tensors and not set(tensors) <= expected:
            raise CheckpointError(
                f"the checkpoint's optimizer holds {sorted(set(tensors) - expected)[:3]}, which this model lacks; "
                "restore it into the model that it was saved from."
            )
        self.adamw.state.clear()
        for name, parameter in self.parameters.items():
            if f"step/{name}" in tensors:
                keys = ("step", "exp_avg", "exp_avg_sq")
                self.adamw.state[parameter] = {key: tensors[f"{key}/{name}"].to(parameter.device) for key in keys}


def make_optimizer(parameters: Mapping[str, Parameter], settings: OptimizerSettings) -> Optimizer:
    """An optimizer that has made no update.

    Args:
        parameters: by name, each once; those that train.
        settings: AdamW's numbers.

    Returns:
        With AdamW in its fused form, element-wise and so the same on any number of threads.
    """
    matrices = [p for p in parameters.values() if p.dim() > 1]
    vectors = [p for p in parameters.values() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    adamw = AdamW(
        [group for group in groups if group["params"]],
        lr=settings.schedule.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,
    )
    return Optimizer(parameters=parameters, settings=settings, adamw=adamw)
