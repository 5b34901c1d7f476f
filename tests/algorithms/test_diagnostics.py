"""Metrics of an update over the loss's own tensors."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms import (
    Clip,
    ObjectiveError,
    bypassing_proximal,
    effective_sample_size,
    group_diagnostics,
    grpo,
    kl_k3,
    lag_diagnostics,
    loss_terms,
    masked_mean,
    supervised,
    update_diagnostics,
)
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.diagnostics.updates import Strata, explained_variance, measure_tokens, stratified_diagnostics
from rollwright.algorithms.ratios.sequence_ratios import sequence_mean_ratio
from tests.algorithms.pieces import credit_inputs
from tests.algorithms.preset_table import with_kl
from tests.algorithms.test_ratio_and_clip import streams
from tests.cases import case, method_fixture


def measured(objective, piece, *, learner_version=0):
    """Values by name and labels: `is/max ratio=current/behavior`."""
    weights = {one.component: piece.token_weights for one in objective.regularizers}
    terms = loss_terms(objective, piece, weights)
    found = update_diagnostics(objective, piece, terms.flags, learner_version=learner_version, keep=terms.keep)
    by_key = {named(one): one.value for one in found}
    assert len(by_key) == len(found)
    return by_key


def named(number):
    return " ".join([number.name, *(f"{label}={value}" for label, value in number.labels.items())])


def test_divergences_and_clip_fraction_match_the_worked_numbers():
    fixture = method_fixture("M135.a")
    low, high = fixture.input["eps"]
    objective = bypassing_proximal(grpo(clip=Clip(low=1 - low, high=1 + high)))
    piece = streams([1.0] * 3, behavior=fixture.input["beh"], current=fixture.input["cur"], mask=fixture.input["mask"])
    found = measured(objective, piece)
    due = {
        "policy/kl_beh": "kl_beh_cur",
        "policy/kl_beh_k3": "k3",
        "policy/clip_frac_two_sided": "clip_fraction_two_sided",
        "is/ppl_ratio ratio=current/behavior": "ppl_ratio",
        "is/chi2 ratio=current/behavior": "chi2_token",
    }
    for name, key in due.items():
        assert found[name] == pytest.approx(fixture.expect[key], abs=fixture.tol), name


def test_mismatch_is_taken_at_equal_version_only():
    fixture = method_fixture("M135.a")
    scores = {"behavior": [*fixture.input["beh"], -9.0], "proximal": [*fixture.input["cur"], -1.0]}
    piece = streams([1.0] * 4, current=scores["proximal"], versions=[7, 7, 7, 6], **scores)
    found = measured(grpo(), piece, learner_version=7)
    assert found["mismatch/logp_abs stat=mean"] == pytest.approx(fixture.expect["logp_absdiff_mean"], abs=fixture.tol)
    assert found["mismatch/logp_abs stat=max"] == pytest.approx(fixture.expect["logp_absdiff_max"], abs=fixture.tol)
    assert measured(grpo(), piece, learner_version=9)["mismatch/logp_abs stat=max"] is None


def test_effective_sample_size_matches_the_worked_numbers():
    fixture = method_fixture("M46.a")
    weights, mask = torch.tensor(fixture.input["w"]), torch.tensor(fixture.input["mask"], dtype=torch.bool)
    size = effective_sample_size(weights, mask)
    assert size is not None
    assert size == pytest.approx(fixture.expect["ess"], abs=fixture.tol)
    assert size / int(mask.sum()) == pytest.approx(fixture.expect["ess_frac"], abs=fixture.tol)
    assert effective_sample_size(weights, torch.zeros(4, dtype=torch.bool)) is None


def test_lags_match_the_worked_numbers():
    fixture = method_fixture("M107.a")
    versions = torch.tensor([*fixture.input["token_versions"], -1, 3], dtype=torch.int32)
    mask = torch.tensor([True, True, True, True, False])
    found = lag_diagnostics(versions, mask, learner_version=fixture.input["learner_version"])
    by_name = {named(one): one.value for one in found}
    assert by_name["stale/lag stat=max"] == fixture.expect["lag_max"]
    assert by_name["stale/lag stat=mean"] == pytest.approx(fixture.expect["lag_mean"], abs=fixture.tol)
    assert by_name["stale/num_versions"] == fixture.expect["n_versions"]
    histogram = {one.labels["lag"]: one.value for one in found if one.name == "stale/lag_hist"}
    assert histogram == {"0": 1.0, "2": 2.0}


def test_shares_of_groups_without_contrast_match_the_worked_numbers():
    fixture = method_fixture("M135.c")
    rewards = [reward for group in fixture.input["group_R"] for reward in group]
    groups = [index for index, group in enumerate(fixture.input["group_R"]) for _ in group]
    # A singleton has no baseline, an unscored group is not counted.
    found = {
        one.name: one.value
        for one in group_diagnostics(credit_inputs([*rewards, None, None], groups=[*groups, 9, 9]), success_at=1.0)
    }
    assert found["reward/zero_var_frac"] == pytest.approx(fixture.expect["frac_zero_variance"])
    assert found["reward/all_right"] == pytest.approx(fixture.expect["frac_all_right"])
    assert found["reward/all_wrong"] == pytest.approx(fixture.expect["frac_all_wrong"])
    assert found["reward/no_baseline_frac"] == 0.0


@pytest.mark.case("F115")
def test_entropy_and_kl_are_means_over_trained_tokens_only():
    given_case = case("F115")
    mask = torch.tensor(given_case.input["mask"], dtype=torch.bool).flatten()
    entropy = torch.tensor(given_case.input["entropy"]).flatten()
    kl = torch.tensor(given_case.input["kl"]).flatten()
    sentinel = given_case.input["sentinel_logprob_at_padding"]
    assert masked_mean(kl, mask) == pytest.approx(given_case.expect["kl_token_mean"])
    scores = torch.where(mask, -1.0, sentinel)
    piece = streams([1.0] * len(mask), mask=mask.tolist(), current=scores, proximal=scores, entropy=entropy.tolist())
    found = measured(grpo(), piece)
    assert found["entropy/full"] == pytest.approx(given_case.expect["entropy_token_mean"])
    assert found["entropy/sampled"] == 1.0
    assert found["policy/clip_frac"] == 0.0


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf"), 1e30])
def test_no_metric_reads_what_is_under_the_mask(poison):
    objective = with_kl(grpo(), kl_k3)
    clean = [-1.0, -2.0, 0.0]
    dirty = [-1.0, -2.0, poison]

    def at(scores, entropy):
        names = ("behavior", "proximal", "current", "reference")
        piece = streams([1.0, -1.0, scores[2]], mask=[1, 1, 0], entropy=entropy, **dict.fromkeys(names, scores))
        return measured(objective, piece)

    assert at(dirty, [1.0, 2.0, poison]) == at(clean, [1.0, 2.0, 0.0])


def test_nothing_measured_is_undefined_not_zero():
    piece = streams([1.0], mask=[0], current=[0.0], behavior=[0.0], proximal=[0.0])
    found = measured(grpo(), piece)
    counts = {name: value for name, value in found.items() if value is not None}
    assert counts.keys() == {
        "mask/trained_tokens",
        "mask/nonfinite_tokens",
        "mask/zero_advantage_tokens",
        "stale/num_versions",
    }
    assert set(counts.values()) == {0.0}
    assert {"policy/kl_beh", "policy/clip_frac", "is/ess", "mismatch/prob_corr", "stale/lag stat=mean"} <= found.keys()


def test_streams_that_are_absent_are_not_measured():
    found = measured(supervised(), streams([1.0], current=[-0.5]))
    absent = {"policy/kl_beh", "policy/kl_ref", "is/ess", "mismatch/logp_abs stat=max", "entropy/full"}
    assert not absent & found.keys()
    assert found["entropy/sampled"] == 0.5


def test_held_values_are_counted():
    objective = with_kl(grpo(), kl_k3)
    piece = streams([1.0] * 3, current=[-30.0, -1.0, float("nan")], proximal=[-1.0] * 3, reference=[-1.0, -30.0, -1.0])
    found = measured(objective, piece)
    assert found["mask/ratio_clamped"] == 1.0
    assert found["mask/k3_clamped"] == 2.0
    assert found["mask/nonfinite_tokens"] == 1.0
    assert found["mask/trained_tokens"] == 3.0


def test_explained_variance_matches_the_worked_numbers_and_reads_no_masked_value():
    fixture = method_fixture("M135.b")
    predicted = torch.tensor([*fixture.input["V"], float("nan")])
    returns = torch.tensor([*fixture.input["return"], float("inf")])
    mask = torch.tensor([True, True, True, False])
    found = explained_variance(predicted, returns, mask)
    assert found == pytest.approx(fixture.expect["explained_variance"], rel=1e-6)
    assert explained_variance(returns, returns, mask) == 1.0
    assert explained_variance(torch.zeros(4), returns, mask) == 0.0


def test_explained_variance_of_nothing_or_of_level_returns_is_undefined():
    ones = torch.ones(3)
    assert explained_variance(torch.zeros(3), ones, torch.ones(3, dtype=torch.bool)) is None
    assert explained_variance(ones, ones, torch.zeros(3, dtype=torch.bool)) is None
    with pytest.raises(ObjectiveError, match="one of each a token"):
        explained_variance(ones, torch.ones(2), torch.ones(3, dtype=torch.bool))


def test_probabilities_correlate_at_equal_version():
    scores = [-0.1, -1.0, -3.0]
    piece = streams([1.0] * 3, behavior=scores, proximal=[2 * s for s in scores], current=scores)
    shown = torch.tensor([scores, [2 * s for s in scores]], dtype=torch.float64).exp()
    assert measured(grpo(), piece)["mismatch/prob_corr"] == pytest.approx(float(shown.corrcoef()[0, 1]))
    assert measured(grpo(), piece, learner_version=1)["mismatch/prob_corr"] is None
    level = streams([1.0] * 3, behavior=[-1.0] * 3, proximal=scores, current=scores)
    assert measured(grpo(), level)["mismatch/prob_corr"] is None


def test_the_share_of_truncated_tokens_is_measured():
    objective = replace(grpo(), correction=TruncatedRatio(cap=5.0), needs=frozenset({"behavior", "proximal"}))
    proximal = torch.tensor([6.0, 5.0, 0.1, 1.0], dtype=torch.float64).log() - 3.0
    piece = streams([1.0] * 4, behavior=[-3.0] * 4, proximal=proximal, current=proximal)
    terms = loss_terms(objective, piece, {})
    assert terms.correction.tolist() == pytest.approx([5.0, 5.0, 0.1, 1.0])
    assert measured(objective, piece)["is/frac_truncated"] == 0.25
    assert "is/frac_truncated" not in measured(grpo(), piece)


def test_tails_are_order_statistics_of_the_ratio():
    proximal = torch.arange(1, 101, dtype=torch.float64).log()
    piece = streams([1.0] * 100, behavior=[0.0] * 100, proximal=proximal, current=proximal)
    found = measured(grpo(), piece)
    assert [found[f"is/quantiles quantile={q}"] for q in (0.5, 0.9, 0.95, 0.99)] == pytest.approx([51, 91, 96, 100])
    assert found["is/max"] == pytest.approx(100.0)


def test_strata_select_tokens_after_ratios_of_whole_rows_were_made():
    """A row's geometric mean ratio is that of all its tokens, however few of them stand in a stratum."""
    objective = replace(grpo(clip=Clip(low=0.8, high=1.3)), ratio=sequence_mean_ratio)
    current = torch.tensor([1.5, 1.0], dtype=torch.float64).log()
    piece = streams([1.0, 1.0], current=current, proximal=[0.0, 0.0], behavior=[0.0, 0.0])
    flags = torch.zeros(2, dtype=torch.int32)
    tokens = measure_tokens(objective, piece, flags, learner_version=0)
    strata = Strata(label="half", names=("first", "second"), index=torch.tensor([0, 1]))
    found = {named(one): one.value for one in stratified_diagnostics(tokens, [strata])}
    # The row's ratio is sqrt(1.5) = 1.22, inside; a token's own ratio of 1.5 would lie outside.
    assert found["policy/clip_frac_two_sided half=first"] == 0.0
    assert found["policy/kl_beh half=first"] == pytest.approx(-float(current[0]))
    assert found["policy/kl_beh half=second"] == 0.0


def test_one_stratum_alone_and_what_is_undefined_are_not_repeated():
    piece = streams([1.0, 1.0], current=[-1.0, -2.0], proximal=[-1.0, -2.0])
    tokens = measure_tokens(grpo(), piece, torch.zeros(2, dtype=torch.int32), learner_version=0)
    alone = Strata(label="source", names=("code",), index=torch.tensor([0, 0]))
    assert stratified_diagnostics(tokens, [alone]) == ()
    both = Strata(label="half", names=("first", "second"), index=torch.tensor([0, 1]))
    assert all(one.value is not None for one in stratified_diagnostics(tokens, [both]))


def test_weights_from_the_future_are_refused():
    with pytest.raises(ObjectiveError, match="version 3"):
        lag_diagnostics(torch.tensor([3]), torch.tensor([True]), learner_version=2)
