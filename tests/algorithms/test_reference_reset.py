"""A reference that follows the policy."""

import pytest
import torch

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.regularizers.full_vocabulary import exact_kl
from rollwright.algorithms.regularizers.reference_reset import ReferenceSync, cleared_moments, mix_reference
from tests.cases import method_fixture


def test_a_reset_takes_the_policy_and_clears_the_moments():
    fixture = method_fixture("M93.a")
    reference, policy = (torch.tensor(fixture.input[name]).double() for name in ("ref", "theta"))
    found = mix_reference({"w": reference}, {"w": policy}, share=1.0)["w"]
    assert found.tolist() == fixture.expect["ref"]
    assert float(exact_kl(policy, found)) == fixture.expect["kl_after"]
    assert not cleared_moments({"m": torch.ones(2), "v": torch.ones(2)})["v"].any()


def test_a_reset_has_the_policy_s_own_bits_and_is_a_copy():
    policy = torch.randn(5, generator=torch.Generator().manual_seed(0))
    found = mix_reference({"w": torch.zeros(5)}, {"w": policy}, share=1.0)["w"]
    assert torch.equal(found, policy) and found.data_ptr() != policy.data_ptr()


def test_a_soft_sync_is_a_mean():
    found = mix_reference({"w": torch.zeros(2)}, {"w": torch.tensor([1.0, 2.0])}, share=0.6)["w"]
    assert found.tolist() == pytest.approx([0.6, 1.2])


def test_it_is_due_at_its_rhythm():
    assert [update for update in range(13) if ReferenceSync(every=4).is_due(update)] == [4, 8, 12]


def test_what_moves_nothing_or_fits_nothing_is_refused():
    with pytest.raises(ObjectiveError, match="every 0 updates"):
        ReferenceSync(every=0)
    with pytest.raises(ObjectiveError, match=r"share of 0\.0"):
        ReferenceSync(share=0.0)
    with pytest.raises(ObjectiveError, match="share of the policy in the reference is 2"):
        mix_reference({}, {}, share=2.0)
    with pytest.raises(ObjectiveError, match="names or shapes"):
        mix_reference({"w": torch.zeros(2)}, {"w": torch.zeros(3)}, share=0.5)
