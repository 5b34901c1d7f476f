import math

import pytest
import torch

from rollwright.learner.errors import LearnerError
from rollwright.learner.optimizer import OptimizerSettings, Schedule, ScheduleShape, make_optimizer
from tests.cases import case

CONSTANT = Schedule(learning_rate=0.1)


def optimizer_of(values, *, schedule=CONSTANT, **settings):
    parameters = {
        "matrix": torch.nn.Parameter(torch.tensor([values])),
        "vector": torch.nn.Parameter(torch.tensor(values)),
    }
    return make_optimizer(parameters, OptimizerSettings(schedule=schedule, **settings)), parameters


def give(parameters, gradient):
    for parameter in parameters.values():
        parameter.grad = torch.tensor(gradient).view_as(parameter)


@pytest.mark.case("F113")
def test_the_schedule_counts_updates_and_the_first_is_not_at_zero():
    given, expected = case("F113").input, case("F113").expect
    total = given["rollout_steps"] * given["updates_per_step"] * given["epochs_per_batch"]
    assert total == expected["total_updates"]
    schedule = Schedule(learning_rate=1.0, shape=ScheduleShape.LINEAR, warmup_updates=4, total_updates=total)
    assert [schedule.rate(update) for update in range(1, total + 1)] == pytest.approx(expected["lr_of_updates"])
    assert schedule.rate(1) == expected["lr_first"]
    assert schedule.rate(total + 5) == pytest.approx(expected["lr_last_positive"])
    only_warmup = Schedule(learning_rate=1.0, shape=ScheduleShape.LINEAR, warmup_updates=4, total_updates=4)
    assert only_warmup.rate(4) == 1.0


def test_cosine_falls_from_the_highest_rate_towards_the_final_one():
    schedule = Schedule(learning_rate=2.0, shape=ScheduleShape.COSINE, total_updates=4, final_ratio=0.5)
    shares = [0.5 * (1 + math.cos(math.pi * k / 4)) for k in range(4)]
    assert [schedule.rate(u) for u in range(1, 5)] == pytest.approx([2 * (0.5 + 0.5 * s) for s in shares])


def test_a_constant_rate_stays():
    schedule = Schedule(learning_rate=0.3, warmup_updates=2)
    assert [schedule.rate(u) for u in (1, 2, 3, 1000)] == pytest.approx([0.15, 0.3, 0.3, 0.3])


def test_an_update_is_adamw_on_the_clipped_gradient_and_only_matrices_decay():
    optimizer, parameters = optimizer_of([1.0, 2.0], clip_norm=1.0, weight_decay=0.5)
    give(parameters, [3.0, 4.0])
    report = optimizer.update()
    norm = math.sqrt(2 * 25)
    assert report.grad_norm == pytest.approx(norm)
    # First step of Adam: lr * sign(g) up to epsilon, whatever the size of g.
    assert parameters["vector"].tolist() == pytest.approx([0.9, 1.9], abs=1e-5)
    assert parameters["matrix"].flatten().tolist() == pytest.approx([0.95 - 0.1, 1.9 - 0.1], abs=1e-5)
    moment = optimizer.state_tensors()["exp_avg/vector"]
    assert moment.tolist() == pytest.approx([0.1 * 3 / norm, 0.1 * 4 / norm], rel=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e38])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted(bad):
    optimizer, parameters = optimizer_of([1.0, 2.0])
    give(parameters, [0.2, 0.1])
    optimizer.update()
    before = {name: p.detach().clone() for name, p in parameters.items()}
    state = {name: t.clone() for name, t in optimizer.state_tensors().items()}
    give(parameters, [bad, bad])
    report = optimizer.update()
    assert report.bad_tensor in ("matrix", "the norm overflows")
    assert all(torch.equal(before[name], p) for name, p in parameters.items())
    assert all(torch.equal(state[name], t) for name, t in optimizer.state_tensors().items())
    assert (optimizer.num_applied, optimizer.num_skipped) == (1, 1)
    assert all(p.grad is None for p in parameters.values())
    give(parameters, [0.2, 0.1])
    assert optimizer.update().bad_tensor is None


def test_a_skip_advances_neither_adamw_nor_schedule():
    optimizer, _ = optimizer_of([1.0, 2.0], schedule=Schedule(learning_rate=1.0, warmup_updates=4))
    assert optimizer.skip().learning_rate == 0.25
    assert optimizer.skip().learning_rate == 0.25
    assert (optimizer.num_applied, optimizer.num_skipped, optimizer.state_tensors()) == (0, 2, {})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schedule(learning_rate=math.nan),
        lambda: Schedule(learning_rate=1.0, shape=ScheduleShape.LINEAR),
        lambda: Schedule(learning_rate=1.0, shape=ScheduleShape.COSINE, warmup_updates=5, total_updates=4),
        lambda: OptimizerSettings(schedule=Schedule(learning_rate=1.0), beta1=1.0),
        lambda: OptimizerSettings(schedule=Schedule(learning_rate=1.0), clip_norm=0.0),
    ],
)
def test_settings_that_go_nowhere_are_refused(make):
    with pytest.raises(LearnerError):
        make()


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_the_norm_of_an_update_is_that_of_the_difference_of_the_weights(weight_decay):
    schedule = Schedule(learning_rate=0.1, warmup_updates=4)
    optimizer, parameters = optimizer_of([1.0, -2.0, 3.0], schedule=schedule, weight_decay=weight_decay, clip_norm=1.0)
    for gradient in ([3.0, 4.0, 0.0], [0.1, -2.0, 0.3], [0.0, 0.0, 1e-3]):
        before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        give(parameters, gradient)
        said = optimizer.update().update_norm
        moved = torch.cat([(parameters[name].detach() - before[name]).flatten() for name in parameters])
        assert said == pytest.approx(float(moved.norm()), rel=1e-5)
    give(parameters, [float("nan")] * 3)
    assert optimizer.update().update_norm == optimizer.skip().update_norm == 0.0
