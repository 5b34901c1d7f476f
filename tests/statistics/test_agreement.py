"""Agreement beyond chance, and stated chances against what came true; numbers worked by hand."""

import pytest

from rollwright.statistics import StatisticsError, brier_score, cohen_kappa


def test_kappa_of_a_worked_table():
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5.
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)


def test_kappa_is_undefined_where_nothing_varies():
    assert cohen_kappa([]) is None
    assert cohen_kappa([(True, True)] * 3) is None
    assert cohen_kappa([(True, False), (False, True)]) == -1.0


def test_brier_of_worked_chances():
    assert brier_score([1.0, 0.5, 0.2], [True, True, False]) == pytest.approx((0 + 0.25 + 0.04) / 3)
    assert brier_score([], []) is None
    with pytest.raises(StatisticsError):
        brier_score([1.2], [True])
    with pytest.raises(StatisticsError):
        brier_score([0.5], [])
