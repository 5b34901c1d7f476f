"""Gaps to teachers: on-policy, by domain, beside a task, and of another model's own RL."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.distillation import (
    count_clamped_gaps,
    multi_teacher_gap,
    policy_shift,
    task_plus_teacher_gap,
    teacher_gap,
)
from rollwright.algorithms.credit.groups import UNSCORED
from rollwright.algorithms.credit.truncation import TRUNCATED, mask_truncated
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.regularizers.full_vocabulary import exact_kl, forward_kl
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def rows(rewards, *, lengths=None, truncated=None, sources=None, **logprobs):
    inputs = credit_inputs(rewards, lengths=lengths, truncated=truncated)
    source = torch.zeros(len(rewards), dtype=torch.int64) if sources is None else torch.tensor(sources)
    streams = {name: torch.tensor(values, dtype=torch.float64) for name, values in logprobs.items()}
    return replace(inputs, source_index=source, logprobs=streams)


def near(expected):
    return pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_a_token_is_worth_teacher_minus_student_and_nothing_of_what_follows():
    inputs = rows([0.0], lengths=[2], teacher=[-0.5, -2.0], proximal=[-1.0, -1.0])
    worked = method_fixture("M23.a")
    assert teacher_gap(inputs).advantages.tolist() == near(worked.expect["A"][:2])
    assert teacher_gap(inputs, discount=0.5).advantages.tolist() == near([0.0, -1.0])
    by_engine = replace(inputs, logprobs={**inputs.logprobs, "behavior": torch.full((2,), -3.0)})
    assert teacher_gap(by_engine, student="behavior").advantages.tolist() == near([2.5, 1.0])


@pytest.mark.row("S192")
def test_the_sampled_gap_has_the_gradient_of_the_reverse_kl_at_its_prefix():
    student = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log().requires_grad_()
    teacher = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64).log()
    worked = method_fixture("M23.b").expect
    divergence = exact_kl(student, teacher)
    assert float(divergence.detach()) == pytest.approx(worked["reverse_kl"], abs=1e-9)
    assert float(forward_kl(student, teacher).detach()) == pytest.approx(worked["forward_kl"], abs=1e-9)
    # Every token of the vocabulary sampled once, weighed by its chance.
    scores = torch.log_softmax(student, -1)
    inputs = rows([0.0], lengths=[3], teacher=teacher.tolist(), proximal=scores.tolist())
    gap = teacher_gap(inputs).advantages
    chance = scores.detach().exp()
    assert float((chance * gap).sum()) == pytest.approx(worked["E_student_of_A"], abs=1e-9)
    (sampled,) = torch.autograd.grad((chance * gap * scores).sum(), student, retain_graph=True)
    (exact,) = torch.autograd.grad(divergence, student)
    torch.testing.assert_close(sampled, -exact)


def test_a_token_that_the_teacher_excludes_has_a_bounded_gap_and_is_counted():
    infinity = float("inf")
    inputs = rows([0.0], lengths=[4], teacher=[-infinity, -30.0, -1.0, -21.0], proximal=[-1.0, -1.0, -25.0, -1.0])
    assert teacher_gap(inputs).advantages.tolist() == [-20.0, -20.0, 20.0, -20.0]
    assert count_clamped_gaps(inputs) == 3
    assert teacher_gap(inputs, bound=5.0).advantages.tolist() == [-5.0, -5.0, 5.0, -5.0]
    with pytest.raises(ObjectiveError, match="bound is 0"):
        teacher_gap(inputs, bound=0.0)


def test_a_missing_score_spoils_its_token_alone():
    inputs = rows([0.0, 0.0], lengths=[2, 1], teacher=[float("nan"), -2.0, -1.0], proximal=[-1.0, -1.0, -2.0])
    assert teacher_gap(inputs).advantages.tolist() == near([float("nan"), -1.0, 1.0])
    assert teacher_gap(inputs, discount=1.0).advantages.tolist() == near([float("nan"), -1.0, 1.0])


def test_rewards_are_not_read_but_an_unscored_row_stays_out():
    inputs = rows([5.0, 5.0, None], teacher=[-1.0, -1.0, -1.0], proximal=[-2.0, -3.0, -4.0])
    credit = teacher_gap(inputs)
    assert credit.advantages.tolist() == [1.0, 2.0, 0.0]
    assert credit.untrained == {2: UNSCORED}


@pytest.mark.row("S193")
def test_the_domain_chooses_the_teacher_and_no_other_is_read():
    streams = {"maths": [-0.5, float("nan")], "code": [float("nan"), -4.0], "proximal": [-1.0, -1.0]}
    inputs = rows([0.0, 0.0], sources=[7, 3], **streams)
    gap = partial(multi_teacher_gap, weights={7: 1.0, 3: 1.0})
    assert gap(inputs, teachers={7: "maths", 3: "code"}).advantages.tolist() == [0.5, -3.0]
    assert gap(inputs, teachers={7: "code", 3: "maths"}).advantages.isnan().all()
    weighed = multi_teacher_gap(inputs, teachers={7: "maths", 3: "code"}, weights={7: 2.0, 3: 0.5})
    assert weighed.advantages.tolist() == [1.0, -1.5]
    # Where the wrong teacher has scores too, its credit is another one.
    known = rows([0.0, 0.0], sources=[7, 3], maths=[-0.5, -0.25], code=[-3.0, -4.0], proximal=[-1.0, -1.0])
    assert gap(known, teachers={7: "maths", 3: "code"}).advantages.tolist() == [0.5, -3.0]
    assert gap(known, teachers={7: "code", 3: "maths"}).advantages.tolist() == [-2.0, 0.75]
    with pytest.raises(ObjectiveError, match=r"rows \[1\] are of sources without a teacher"):
        gap(inputs, teachers={7: "maths"})
    with pytest.raises(ObjectiveError, match="source 3 has the teacher 'code' and no weight"):
        multi_teacher_gap(inputs, teachers={3: "code"}, weights={7: 1.0})
    with pytest.raises(ObjectiveError, match="Nemotron Cascade 2 did not disclose it"):
        multi_teacher_gap(inputs, teachers={7: "maths", 3: "code"})


def test_a_clipped_gap_is_added_to_the_task():
    inputs = rows([1.0, 0.0], lengths=[2, 1], teacher=[2.0, -1.2, -1.0], proximal=[-1.0, -1.0, -1.0])
    credit = task_plus_teacher_gap(inputs, credit=center_within_group, eta=0.1, kappa=2.0)
    assert credit.advantages.tolist() == near([0.7, 0.48, -0.5])
    halved = task_plus_teacher_gap(inputs, credit=center_within_group, eta=0.1, kappa=2.0, task_weight=0.5)
    assert halved.advantages.tolist() == near([0.45, 0.23, -0.25])
    with pytest.raises(ObjectiveError, match="kappa has no default: Kimi K3 did not disclose it"):
        task_plus_teacher_gap(inputs, credit=center_within_group, eta=0.1)
    with pytest.raises(ObjectiveError, match="eta has no default: Kimi K3 did not disclose it"):
        task_plus_teacher_gap(inputs, credit=center_within_group, kappa=1.0)


def test_beside_a_task_a_row_without_contrast_learns_from_the_teacher_and_a_withheld_one_does_not():
    inputs = rows([1.0, 1.0, None, 1.0], truncated=[0, 1, 0, 0], teacher=[-1.0] * 4, proximal=[-2.0, -2.0, -2.0, -1.0])
    task = partial(mask_truncated, credit=center_within_group)
    credit = task_plus_teacher_gap(inputs, credit=task, eta=1.0, kappa=9.0)
    assert credit.advantages.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert credit.untrained == {1: TRUNCATED, 2: UNSCORED, 3: "zero_contrast"}


@pytest.mark.row("S194")
def test_the_shift_of_another_model_is_a_reward_and_swapping_its_ends_turns_it_round():
    worked = method_fixture("M26.a")
    after, before = worked.input["post"], worked.input["pre"]
    inputs = rows([0.0], lengths=[2], after=after, before=before)
    found = policy_shift(inputs, scale=1.0).advantages
    assert found.tolist() == near(worked.expect["A"])
    swapped = rows([0.0], lengths=[2], after=before, before=after)
    assert policy_shift(swapped, scale=1.0).advantages.equal(-found)
    assert policy_shift(inputs, scale=2.0, discount=1.0).advantages.tolist() == near(
        [2 * sum(worked.expect["A"]), 2 * worked.expect["A"][1]]
    )
    with pytest.raises(ObjectiveError, match="Direct-OPD did not disclose it"):
        policy_shift(inputs)


def test_the_divergences_have_the_gradients_of_finite_differences():
    generator = torch.Generator().manual_seed(2)
    student = torch.randn(3, 5, dtype=torch.float64, generator=generator).requires_grad_()
    teacher = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    assert torch.autograd.gradcheck(lambda logits: exact_kl(logits, teacher), (student,))
    assert torch.autograd.gradcheck(lambda logits: forward_kl(logits, teacher), (student,))
