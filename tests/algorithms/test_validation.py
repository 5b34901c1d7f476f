"""Compositions that mean nothing are refused with what to change."""

from dataclasses import replace

import pytest

from rollwright.algorithms import (
    Clip,
    ObjectiveError,
    Regularizer,
    TokenMean,
    bypassing_proximal,
    check_objective,
    grpo,
    kl_k3,
    no_ratio,
    rloo,
    supervised,
    token_ratio,
    with_regularizer,
)


def test_a_group_of_one_is_refused_where_attempts_are_compared():
    with pytest.raises(ObjectiveError, match="a group of at least 2"):
        check_objective(rloo(), group_size=1)
    check_objective(supervised(), group_size=1)


def test_a_stream_that_is_read_but_not_needed_is_refused():
    with pytest.raises(ObjectiveError, match="Add 'proximal'"):
        check_objective(replace(grpo(), needs=frozenset()), group_size=2)


def test_an_unknown_need_is_refused():
    with pytest.raises(ObjectiveError, match="may need"):
        check_objective(replace(grpo(), needs=frozenset({"old"})), group_size=2)


def test_a_component_stands_once():
    twice = Regularizer(component="policy_gradient", coefficient=1.0, per_token=kl_k3, weights=TokenMean())
    with pytest.raises(ObjectiveError, match="may stand once"):
        check_objective(with_regularizer(grpo(), twice, needs=frozenset({"reference"})), group_size=2)


def test_kept_tokens_are_refused_in_bypass_mode():
    objective = bypassing_proximal(grpo(weights=TokenMean(counting="kept")))
    with pytest.raises(ObjectiveError, match="bypass mode"):
        check_objective(objective, group_size=2)


def test_only_a_token_ratio_can_be_bypassed():
    with pytest.raises(ObjectiveError, match="no proximal ratio"):
        bypassing_proximal(rloo())


def test_a_clip_of_no_ratio_has_no_gradient_and_is_refused():
    with pytest.raises(ObjectiveError, match="has no gradient"):
        check_objective(replace(rloo(), surrogate=Clip(), ratio=no_ratio), group_size=2)


def test_a_ratio_of_an_unchanged_policy_is_one():
    doubled = replace(grpo(), ratio=lambda streams: 2 * token_ratio(streams))
    with pytest.raises(ObjectiveError, match="not 1 for an unchanged policy"):
        check_objective(doubled, group_size=2)
