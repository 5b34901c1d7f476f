"""An objective in words: each part with its method and its numbers, whatever it is made of."""

from dataclasses import dataclass, replace
from functools import partial

import torch

from rollwright.algorithms import (
    Clip,
    FixedLength,
    Regularizer,
    Surrogate,
    TokenMean,
    center_within_group,
    grpo,
    kl_k3,
    mask_truncated,
    penalize_overlong,
    rloo,
    standardize_within_group,
    with_regularizer,
)
from rollwright.algorithms.corrections.self_normalized import self_normalizing
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.describe import describe
from rollwright.algorithms.ratios.sequence_ratios import sequence_mean_ratio
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from rollwright.algorithms.surrogates.cispo import Cispo
from rollwright.algorithms.surrogates.outer_clip import AdaptiveUpperBound
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip


def parts_of(objective):
    return {one.place: one for one in describe(objective).walk()}


def test_each_part_has_its_method_and_its_numbers():
    found = parts_of(grpo(ddof=0, eps=1e-4, clip=Clip(low=0.7, high=1.5), weights=FixedLength(length=64)))
    assert [found[place].method for place in ("credit", "ratio", "surrogate", "weights")] == [
        "M04",
        "M35",
        "M49",
        "M74",
    ]
    assert found["credit"].formula == "A = (R − R̄)/(s + 0.0001), ddof 0"
    assert "0.7" in found["surrogate"].formula and "1.5" in found["surrogate"].formula
    assert "64" in found["weights"].formula
    assert found["surrogate"].numbers == {"low": "0.7", "high": "1.5"}
    assert found["credit"].source and found["weights"].source


def test_numbers_that_are_left_out_are_the_defaults_of_the_part():
    found = parts_of(replace(grpo(), credit=standardize_within_group))
    assert found["credit"].numbers == {"ddof": "1", "eps": "1e-06"}


def test_stages_around_a_credit_are_walked_from_outside():
    credit = partial(penalize_overlong, credit=center_within_group, max_tokens=100, buffer_tokens=20)
    found = parts_of(replace(grpo(), credit=partial(mask_truncated, credit=credit)))
    chain = [place for place in found if place.startswith("credit")]
    assert chain == ["credit", "credit.credit", "credit.credit.credit"]
    assert [found[place].name.rpartition(":")[2] for place in chain] == [
        "mask_truncated",
        "penalize_overlong",
        "center_within_group",
    ]
    assert "R − R̄" in found["credit"].formula, "the formula of the whole holds that of what is inside"
    assert "100" in found["credit.credit"].formula


def test_a_part_of_a_part_of_a_partial_is_found():
    credit = partial(
        partial(penalize_overlong, max_tokens=9), buffer_tokens=3, credit=partial(standardize_within_group)
    )
    found = parts_of(replace(grpo(), credit=credit))
    assert found["credit"].numbers.items() >= {"max_tokens": "9", "buffer_tokens": "3"}.items()
    assert found["credit.credit"].method == "M04"


def test_parts_of_others_are_named():
    @dataclass(frozen=True)
    class Mine:
        strength: float = 2.0

        def __call__(self, ratio, streams):
            return Surrogate(per_token=ratio, flags=torch.zeros_like(ratio, dtype=torch.int32))

    def mine(inputs, *, credit):
        return credit(inputs)

    found = parts_of(replace(grpo(), surrogate=Mine(), credit=partial(mine, credit=center_within_group)))
    assert found["surrogate"].method is None
    assert found["surrogate"].name == f"{__name__}:test_parts_of_others_are_named.<locals>.Mine"
    assert found["surrogate"].formula == found["surrogate"].name
    assert found["surrogate"].numbers == {"strength": "2"}
    assert found["credit"].name.endswith("<locals>.mine")
    assert found["credit.credit"].method == "M05"


def test_a_method_of_an_object_is_the_object():
    class Learned:
        def credit(self, inputs):
            return center_within_group(inputs)

    found = parts_of(replace(grpo(), credit=Learned().credit))
    assert found["credit"].name.endswith("Learned")


def test_a_term_has_its_coefficient_before_it_and_its_weights_inside():
    term = Regularizer(component="kl", coefficient=0.05, per_token=kl_k3, weights=TokenMean())
    found = parts_of(with_regularizer(rloo(), term, needs=frozenset({"reference"})))
    assert found["kl"].formula.startswith("0.05·(")
    assert (found["kl"].role, found["kl"].method) == ("regularizer", "M81")
    assert "kl_in_loss" in found["kl"].facts
    assert found["kl.weights"].method == "M73"


def test_controllers_are_parts_with_numbers():
    controller = AdaptiveKl(initial=0.2, target=6.0, num_rows=256, horizon=10_000)
    term = Regularizer(component="kl", coefficient=controller, per_token=kl_k3, weights=TokenMean())
    bound = AdaptiveUpperBound(low=0.8, step=0.02, largest=0.3)
    objective = with_regularizer(grpo(clip=Clip(high=bound)), term, needs=frozenset({"reference"}))
    found = parts_of(objective)
    assert (found["kl.coefficient"].role, found["kl.coefficient"].method) == ("controller", "M84")
    assert found["kl.coefficient"].numbers["target"] == "6"
    assert (found["surrogate.high"].role, found["surrogate.high"].method) == ("controller", "M64")
    assert "high" in found["surrogate"].formula


def test_constants_that_nobody_disclosed_are_named_with_who_kept_them():
    found = parts_of(replace(grpo(), surrogate=Cispo(high=5.0)))
    (one,) = found["surrogate"].undisclosed
    assert (one.name, one.value) == ("high", "5")
    assert "MiniMax" in one.who
    found = parts_of(replace(grpo(), credit=partial(learn_from_level_groups, credit=standardize_within_group)))
    assert [(one.name, one.value) for one in found["credit"].undisclosed] == [("alpha", "?")]
    assert "?" in found["credit"].formula


def test_facts_follow_the_arguments_of_a_part():
    plain, averaged = SequenceClip(), SequenceClip(advantage="mean_over_row")
    assert "row_advantage" in parts_of(replace(grpo(), surrogate=plain))["surrogate"].facts
    assert "row_advantage" not in parts_of(replace(grpo(), surrogate=averaged))["surrogate"].facts
    bypassed = partial(sequence_mean_ratio, over="behavior")
    assert "covers_staleness" in parts_of(replace(grpo(), ratio=bypassed))["ratio"].facts
    assert "covers_staleness" not in parts_of(replace(grpo(), ratio=sequence_mean_ratio))["ratio"].facts


def test_records_inside_records_are_parts():
    balanced = SourceBalance(base=TokenMean(), targets={3: 0.25, 7: 0.75})
    found = parts_of(replace(grpo(), weights=balanced))
    assert (found["weights"].method, found["weights.base"].method) == ("M77", "M73")
    assert found["weights"].numbers["targets"] == "{3: 0.25, 7: 0.75}"


def test_stages_of_an_update_are_parts():
    described = describe(self_normalizing(grpo()))
    (stage,) = described.of_role("stage")
    assert stage.place == "self_normalized"


def test_the_whole_says_its_name_needs_and_component():
    described = describe(rloo())
    assert (described.name, described.needs, described.component) == ("rloo", (), "policy_gradient")
    assert describe(grpo()).needs == ("proximal",)
