"""Compositions that contradict themselves are refused with the reason; those that only look so are not."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

from rollwright.algorithms import (
    Clip,
    Credit,
    ObjectiveError,
    Regularizer,
    ResponseMean,
    TokenMean,
    bypass_ratio,
    bypassing_proximal,
    center_within_group,
    check_objective,
    exclude_truncated,
    grpo,
    kl_k2,
    kl_k3,
    leave_one_out,
    mask_truncated,
    no_ratio,
    penalize_overlong,
    punish_truncated,
    return_to_go,
    rloo,
    staleness_ratio,
    standardize_within_group,
    token_ratio,
    with_regularizer,
)
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.self_normalized import SelfNormalized, self_normalizing
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline
from rollwright.algorithms.credit.v_trace import v_trace
from rollwright.algorithms.ratios.prefix_ratios import prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import sequence_mean_ratio, sequence_token_ratio
from rollwright.algorithms.regularizers.entropy_bonus import entropy_regularizer
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift
from rollwright.algorithms.surrogates.earl_gate import EarlGate, earl_gate_stage
from rollwright.algorithms.surrogates.likelihood import policy_gradient
from rollwright.algorithms.surrogates.mirror_descent import MirrorDescent
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from rollwright.algorithms.trial import streams_before_credit

BOTH = frozenset({"proximal", "behavior"})
DISTANCE = frozenset({"proximal", "reference"})


def kl(component="kl", per_token=kl_k3):
    return Regularizer(component=component, coefficient=0.1, per_token=per_token, weights=TokenMean())


def with_kl(objective, *terms):
    for term in terms:
        objective = with_regularizer(objective, term, needs=frozenset({"reference"}))
    return objective


def in_reward(place, credit=leave_one_out):
    return partial(kl_in_reward, credit=credit, coefficient=0.1, place=place)


def gspo(**changed):
    parts = {"ratio": sequence_mean_ratio, "surrogate": SequenceClip(), "weights": ResponseMean()}
    return replace(grpo(), **(parts | changed))


def corrected(correction=staleness_ratio, **changed):
    return replace(grpo(), **({"correction": correction, "needs": BOTH} | changed))


def rewarded(place, credit=leave_one_out):
    return replace(grpo(), credit=in_reward(place, credit), before_credit=DISTANCE)


REFUSED = {
    "a KL in the reward and in the loss": (
        with_kl(rewarded("row_rewards"), kl()),
        "in the reward (kl_in_reward) and in the loss (kl): it would count twice",
    ),
    "two KL terms": (with_kl(grpo(), kl(), kl("kl2", kl_k2)), "2 terms with a KL to the reference (kl, kl2)"),
    "two entropy terms": (
        with_regularizer(
            with_regularizer(grpo(), entropy_regularizer(0.1), needs=frozenset({"entropy"})),
            replace(entropy_regularizer(0.2), component="more"),
            needs=frozenset({"entropy"}),
        ),
        "the same term 2 times (entropy, more)",
    ),
    "a bypass ratio and a correction": (
        replace(bypassing_proximal(grpo()), correction=staleness_ratio, needs=BOTH),
        "staleness would be corrected twice",
    ),
    "a bypassing sequence ratio and a correction": (
        gspo(ratio=partial(sequence_mean_ratio, over="behavior"), correction=staleness_ratio, needs=BOTH),
        "staleness would be corrected twice",
    ),
    "a normalised correction under a bypass ratio": (
        self_normalizing(replace(bypassing_proximal(grpo()), correction=staleness_ratio, needs=BOTH)),
        "staleness would be corrected twice",
    ),
    "a surrogate that corrects itself": (
        corrected(surrogate=BinaryDrift()),
        "(BinaryDrift) weighs by current over behavior itself",
    ),
    "V-trace and a correction": (
        corrected(credit=v_trace, needs=BOTH | {"values"}),
        "(v_trace) weighs its advantages by proximal over behavior, and staleness_ratio corrects once more",
    ),
    "V-trace and a bypass ratio": (
        replace(bypassing_proximal(grpo()), credit=v_trace, needs=BOTH | {"values"}),
        "and bypass_ratio corrects once more",
    ),
    "a correction of the update beside the ratio": (
        corrected(TruncatedRatio(of="current")),
        "(TruncatedRatio) beside a surrogate of the ratio (Clip): the update would count twice",
    ),
    "a row surrogate under token credit": (
        gspo(credit=return_to_go),
        "(SequenceClip) takes one advantage a row, but the credit (return_to_go)",
    ),
    "a row surrogate inside a gate": (
        gspo(
            credit=return_to_go,
            surrogate=EarlGate(surrogate=SequenceClip()),
            stages=(earl_gate_stage(share=0.5),),
            needs=frozenset({"proximal", "entropy"}),
        ),
        "(SequenceClip) takes one advantage a row",
    ),
    "a row surrogate under a KL in token rewards": (
        gspo(credit=in_reward("advantages"), before_credit=DISTANCE),
        "takes one advantage a row, but the credit (kl_in_reward)",
    ),
    "a ratio that nobody reads": (
        replace(grpo(), surrogate=policy_gradient),
        "(policy_gradient) reads no ratio, so token_ratio is without effect",
    ),
    "a row surrogate of a token ratio": (gspo(ratio=token_ratio), "takes one ratio a row, but"),
    "a prefix clip of a token ratio": (
        replace(grpo(), surrogate=PrefixClip()),
        "(PrefixClip) takes the ratio up to each token, but the ratio is token_ratio",
    ),
    "a narrowing band on a product": (
        replace(grpo(), surrogate=PrefixClip(power=-0.5), ratio=prefix_ratio),
        "the band of grpo narrows with the position (power -0.5)",
    ),
    "a stage around a credit twice": (
        replace(grpo(), credit=partial(mask_truncated, credit=partial(mask_truncated, credit=leave_one_out))),
        "applies mask_truncated 2 times",
    ),
    "two treatments of truncated rows": (
        replace(grpo(), credit=partial(punish_truncated, credit=partial(exclude_truncated, credit=leave_one_out))),
        "by exclude_truncated and by punish_truncated: one of them is without effect",
    ),
    "two rules of what is kept": (
        replace(
            corrected(
                SelfNormalized(correction=staleness_ratio, keep=MaskedRatio(low=0.5, high=2.0)),
                keep=MaskedRatio(low=0.2, high=5.0),
            ),
            stages=(SelfNormalized(correction=staleness_ratio, keep=MaskedRatio(low=0.5, high=2.0)).stage,),
        ),
        "keeps tokens by two rules: MaskedRatio in the loss, and MaskedRatio in the mean",
    ),
    "a KL in token rewards that the credit does not read": (
        rewarded("step_rewards"),
        "changes no advantage: its coefficient is 0, or the credit inside it reads no reward of a token. Put it at",
    ),
}

LEGAL = {
    "a KL in the row's reward": rewarded("row_rewards"),
    "a KL in token rewards": rewarded("step_rewards", return_to_go),
    "a KL in the advantages": rewarded("advantages"),
    "a row surrogate with a KL in the row's reward": gspo(credit=in_reward("row_rewards"), before_credit=DISTANCE),
    "a KL term": with_kl(grpo(), kl()),
    "a row surrogate that averages": gspo(credit=return_to_go, surrogate=SequenceClip(advantage="mean_over_row")),
    "a row surrogate of the token form": gspo(ratio=sequence_token_ratio),
    "a prefix clip": replace(grpo(), surrogate=PrefixClip(), ratio=prefix_ratio),
    "a narrowing band on a geometric mean": replace(grpo(), surrogate=PrefixClip(power=-0.5), ratio=prefix_mean_ratio),
    "a decoupled correction": corrected(),
    "a truncated correction": corrected(TruncatedRatio(cap=2.0, level="sequence")),
    "a normalised correction": self_normalizing(corrected(keep=MaskedRatio(low=0.5, high=2.0))),
    "a mask and a correction": corrected(keep=MaskedRatio(low=0.5, high=2.0)),
    "a mask in the loss by the current policy": corrected(keep=MaskedRatio(low=0.5, high=2.0, of="current")),
    "a bypass ratio": bypassing_proximal(grpo()),
    "a bypass ratio with a surrogate that corrects itself": replace(
        bypassing_proximal(grpo()), surrogate=BinaryDrift()
    ),
    "a weight of the current policy on a log-probability": replace(
        rloo(), correction=TruncatedRatio(of="current"), needs=frozenset({"behavior"})
    ),
    "a regression of the row": replace(
        grpo(), ratio=no_ratio, surrogate=MirrorDescent(tau=0.1), acts_without_advantage=True
    ),
    "two stages around a credit": replace(
        grpo(),
        credit=partial(
            mask_truncated,
            credit=partial(penalize_overlong, credit=standardize_within_group, max_tokens=4, buffer_tokens=2),
        ),
    ),
}


@pytest.mark.parametrize(("objective", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_contradiction_is_refused_with_its_reason(objective, reason):
    with pytest.raises(ObjectiveError) as refused:
        check_objective(objective, group_size=4)
    assert reason in str(refused.value)
    assert objective.name in str(refused.value)


@pytest.mark.parametrize("group_size", [2, 3, 8])
@pytest.mark.parametrize("objective", LEGAL.values(), ids=LEGAL)
def test_what_only_looks_like_a_contradiction_is_legal(objective, group_size):
    check_objective(objective, group_size=group_size)


def test_all_contradictions_are_said_at_once():
    objective = with_kl(gspo(credit=return_to_go), kl(), kl("kl2"))
    with pytest.raises(ObjectiveError, match="(?s)counts more than once.*takes one advantage a row"):
        check_objective(objective, group_size=4)


class TestPartsOfOthers:
    """What the catalogue does not know is tried."""

    def test_credit_that_differs_along_a_row_is_seen(self):
        def mine(inputs):
            given = center_within_group(inputs)
            return replace(given, advantages=given.advantages * (1.0 + inputs.step_rewards))

        with pytest.raises(ObjectiveError, match="takes one advantage a row, but the credit .*mine"):
            check_objective(gspo(credit=mine), group_size=4)
        check_objective(replace(grpo(), credit=mine), group_size=4)

    def test_credit_of_a_critic_is_seen(self):
        def mine(inputs):
            values = inputs.values["predicted"]
            given = center_within_group(inputs)
            return replace(given, advantages=torch.where(given.advantages != 0, given.advantages - values, 0.0))

        with pytest.raises(ObjectiveError, match="takes one advantage a row"):
            check_objective(gspo(credit=mine, needs=frozenset({"proximal", "values"})), group_size=4)

    def test_credit_of_unscored_rows_must_be_finite(self):
        def mine(inputs):
            per_row = inputs.rewards.repeat_interleave(inputs.row_offsets.diff())
            return Credit(advantages=per_row, value_targets=None, untrained={})

        with pytest.raises(ObjectiveError, match="was not scored"):
            check_objective(replace(grpo(), credit=mine), group_size=4)

    def test_a_gradient_without_advantage_must_be_declared(self):
        @dataclass(frozen=True)
        class Pulling:
            def __call__(self, ratio, streams):
                given = Clip()(ratio, streams)
                return replace(given, per_token=given.per_token - (ratio - 1.0).square())

        objective = replace(grpo(), surrogate=Pulling())
        with pytest.raises(ObjectiveError, match="acts_without_advantage=True"):
            check_objective(objective, group_size=4)
        check_objective(replace(objective, acts_without_advantage=True), group_size=4)

    @pytest.mark.parametrize(
        ("changed", "says"),
        [
            ({"ratio": lambda streams: token_ratio(streams)[:1]}, "the ratio of grpo gave shape (1,)"),
            ({"correction": lambda streams: torch.ones(())}, "the correction of grpo gave shape ()"),
            (
                {"keep": lambda streams: replace(grpo().keep(streams), keep=streams.action_mask.float())},
                "is a mask of bool",
            ),
            (
                {"surrogate": lambda ratio, streams: replace(Clip()(ratio, streams), flags=torch.zeros(2))},
                "the flags of the surrogate of grpo gave shape (2,)",
            ),
        ],
        ids=["ratio", "correction", "keep", "flags"],
    )
    def test_a_wrong_shape_is_a_sentence(self, changed, says):
        with pytest.raises(ObjectiveError) as refused:
            check_objective(replace(grpo(), **changed), group_size=2)
        assert says in str(refused.value)

    def test_a_term_without_gradient_is_refused(self):
        term = kl(per_token=lambda streams: torch.zeros_like(streams.advantages))
        with pytest.raises(ObjectiveError, match="the term kl of grpo has no gradient"):
            check_objective(with_regularizer(grpo(), term, needs=frozenset()), group_size=2)

    def test_a_term_of_the_wrong_shape_is_refused(self):
        term = kl(per_token=lambda streams: kl_k3(streams).sum())
        with pytest.raises(ObjectiveError, match=r"the term kl of grpo gave shape \(\)"):
            check_objective(with_kl(grpo(), term), group_size=2)

    def test_a_loss_that_is_not_finite_once_the_policy_moved_is_refused(self):
        @dataclass(frozen=True)
        class Rooted:
            def __call__(self, ratio, streams):
                given = Clip()(ratio, streams)
                return replace(given, per_token=given.per_token * (1.0 + (1.0 - ratio).sqrt() * 0.0))

        with pytest.raises(ObjectiveError, match="is not finite"):
            check_objective(replace(grpo(), surrogate=Rooted()), group_size=2)


class TestStreams:
    def test_a_stream_of_the_credit_must_be_among_the_needs(self):
        with pytest.raises(ObjectiveError, match="reads a stream that its `needs` .* do not ask for.*`predicted`"):
            objective = replace(grpo(), credit=v_trace, needs=BOTH, before_credit=frozenset({"proximal"}))
            check_objective(objective, group_size=2)

    @pytest.mark.parametrize("missing", sorted(DISTANCE))
    def test_what_the_credit_reads_before_the_update_must_be_asked_for_before_credit(self, missing):
        objective = replace(rewarded("row_rewards"), needs=DISTANCE | {"entropy"}, before_credit=DISTANCE - {missing})
        with pytest.raises(ObjectiveError, match=rf"`before_credit` .* do not ask for.*{missing} log-probabilities"):
            check_objective(objective, group_size=2)

    def test_only_what_a_learner_makes_is_asked_for_before_credit(self):
        with pytest.raises(ObjectiveError, match=r"has \['teacher'\] in `before_credit`; a learner makes"):
            check_objective(replace(grpo(), before_credit=frozenset({"teacher"})), group_size=2)

    def test_what_a_credit_reads_before_the_update_is_found(self):
        assert streams_before_credit(leave_one_out) == frozenset()
        assert streams_before_credit(in_reward("row_rewards")) == DISTANCE
        assert streams_before_credit(optimal_token_baseline) == {"proximal", "sum_squared_probabilities"}
        level = partial(learn_from_level_groups, credit=in_reward("advantages"), alpha=1.0)
        assert streams_before_credit(level) == DISTANCE | {"entropy"}

    def test_a_reference_of_a_term_must_be_among_the_needs(self):
        with pytest.raises(ObjectiveError, match="Add 'reference'"):
            check_objective(with_regularizer(grpo(), kl(), needs=frozenset()), group_size=2)

    def test_kept_tokens_by_the_current_policy_cannot_be_counted(self):
        objective = corrected(keep=MaskedRatio(low=0.5, high=2.0, of="current"), weights=TokenMean(counting="kept"))
        with pytest.raises(ObjectiveError, match="cannot be told before the weights are made"):
            check_objective(objective, group_size=2)

    def test_a_stage_that_is_missing_is_a_sentence(self):
        normalized = SelfNormalized(correction=staleness_ratio)
        with pytest.raises(ObjectiveError, match="Put the stage among the objective's `stages`"):
            check_objective(corrected(normalized), group_size=2)

    def test_a_stage_that_nobody_reads_is_refused(self):
        stage = SelfNormalized(correction=staleness_ratio).stage
        with pytest.raises(ObjectiveError, match="nothing in grpo reads what its stage 'self_normalized' makes"):
            check_objective(replace(corrected(), stages=(stage,)), group_size=2)

    def test_a_coefficient_is_a_number(self):
        with pytest.raises(ObjectiveError, match="the coefficient of kl in grpo is nan"):
            check_objective(with_kl(grpo(), replace(kl(), coefficient=float("nan"))), group_size=2)

    def test_a_group_has_an_attempt(self):
        with pytest.raises(ObjectiveError, match="at least 1 attempt"):
            check_objective(grpo(), group_size=0)

    def test_a_ratio_without_effect_is_seen_in_bypass_too(self):
        with pytest.raises(ObjectiveError, match="bypass_ratio is without effect"):
            check_objective(replace(rloo(), ratio=bypass_ratio, needs=frozenset({"behavior"})), group_size=2)
