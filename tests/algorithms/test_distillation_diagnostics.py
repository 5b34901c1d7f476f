"""Divergences between a policy and a teacher that hands over distributions."""

import pytest
import torch
from scipy.stats import entropy

from rollwright.algorithms.diagnostics.distillation import distillation_diagnostics, topk_distillation_diagnostics
from rollwright.algorithms.errors import ObjectiveError
from tests.cases import method_fixture


def values(numbers):
    return {n.name.removeprefix("distill/"): n.value for n in numbers}


def test_both_divergences_are_those_worked_by_hand_and_by_scipy():
    fixture = method_fixture("M23.b")
    student, teacher = (torch.tensor([fixture.input[who]], dtype=torch.float64) for who in ("student", "teacher"))
    found = values(distillation_diagnostics(student.log(), teacher.log(), torch.ones(1, dtype=torch.bool)))
    assert found["reverse_kl"] == pytest.approx(fixture.expect["reverse_kl"], rel=1e-6)
    assert found["forward_kl"] == pytest.approx(fixture.expect["forward_kl"], rel=1e-6)
    assert found["reverse_kl"] == pytest.approx(float(entropy(student[0].numpy(), teacher[0].numpy())))
    assert found["forward_kl"] == pytest.approx(float(entropy(teacher[0].numpy(), student[0].numpy())))


def test_all_tokens_named_are_the_whole_vocabulary_and_fewer_tell_less():
    draws = torch.Generator().manual_seed(0)
    logits, teacher = (torch.randn(5, 7, generator=draws, dtype=torch.float64) for _ in range(2))
    mask = torch.tensor([True, True, False, True, True])
    whole = values(distillation_diagnostics(logits, teacher, mask))
    ordered = teacher.log_softmax(-1).sort(-1, descending=True)
    every = values(topk_distillation_diagnostics(logits, ordered.indices, ordered.values, mask))
    few = values(topk_distillation_diagnostics(logits, ordered.indices[:, :2], ordered.values[:, :2], mask))
    for name in ("forward_kl", "reverse_kl"):
        assert every[name] == pytest.approx(whole[name])
        assert 0 <= (few[name] or 0.0) <= (whole[name] or 0.0) + 1e-12


def test_what_is_masked_is_not_read_and_over_nothing_nothing_is_said():
    logits = torch.tensor([[0.0, 1.0], [torch.nan, torch.inf]])
    found = values(distillation_diagnostics(logits, logits, torch.tensor([True, False])))
    assert found == {"forward_kl": 0.0, "reverse_kl": 0.0}
    assert values(distillation_diagnostics(logits, logits, torch.zeros(2, dtype=torch.bool)))["forward_kl"] is None


def test_names_and_probabilities_of_other_shapes_are_refused():
    with pytest.raises(ObjectiveError, match="give k of each"):
        topk_distillation_diagnostics(
            torch.zeros(1, 3), torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 1), torch.ones(1, dtype=torch.bool)
        )
