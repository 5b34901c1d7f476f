"""People with different tastes: few choices of a new one predict the rest better than what all share."""

import numpy as np
import pytest

from rollwright.statistics import StatisticsError
from rollwright.statistics.preference_basis import Choice, choice_accuracy, fit_basis, fit_mixture, pooled_mixture

TASTES = np.array([[3.0, 0.0, 1.0, 0.0], [0.0, 3.0, 1.0, 0.0]])


def choices_of(person: str, mixture, number: int, generator) -> list[Choice]:
    reward = np.asarray(mixture) @ TASTES
    gaps = generator.normal(0, 1, (number, 4))
    signs = np.sign(gaps @ reward)
    return [Choice(person=person, features=sign * gap) for sign, gap in zip(signs, gaps, strict=True)]


@pytest.mark.row("S404")
def test_a_new_persons_few_pairs_predict_held_out_pairs_above_the_pooled_model():
    generator = np.random.default_rng(0)
    known = [c for n in range(10) for c in choices_of(f"u{n}", [n % 2, 1 - n % 2], 40, generator)]
    fitted = fit_basis(known, rank=2, seed=1)
    for mixture in ([0.95, 0.05], [0.05, 0.95]):
        few, held_out = choices_of("new", mixture, 8, generator), choices_of("new", mixture, 400, generator)
        own = choice_accuracy(fit_mixture(fitted.basis, few) @ fitted.basis, held_out)
        pooled = choice_accuracy(pooled_mixture(fitted) @ fitted.basis, held_out)
        alone = choice_accuracy(fit_basis(known, rank=1, seed=1).basis[0], held_out)
        assert own is not None and pooled is not None and alone is not None
        assert own > max(pooled, alone) + 0.1
        assert own > 0.85


@pytest.mark.row("S405")
def test_mixtures_sum_to_one_and_are_kept_under_opaque_ids():
    generator = np.random.default_rng(3)
    known = [c for n in range(4) for c in choices_of(f"3f{n}a", [0.3, 0.7], 10, generator)]
    fitted = fit_basis(known, rank=3, seed=0)
    assert set(fitted.mixtures) == {"3f0a", "3f1a", "3f2a", "3f3a"}
    for mixture in (*fitted.mixtures.values(), fit_mixture(fitted.basis, known[:2]), pooled_mixture(fitted)):
        assert mixture.sum() == pytest.approx(1.0) and (mixture >= 0).all()
    assert fit_mixture(fitted.basis, []).tolist() == pytest.approx([1 / 3] * 3)
    again = fit_basis(known, rank=3, seed=0)
    assert np.array_equal(again.basis, fitted.basis)


def test_nothing_to_fit_is_refused_and_nothing_to_predict_is_undefined():
    with pytest.raises(StatisticsError):
        fit_basis([], rank=2, seed=0)
    assert choice_accuracy(np.ones(4), []) is None
