"""Controllers between the updates of a step."""

from dataclasses import replace

import pytest

from rollwright.algorithms import grpo
from rollwright.algorithms.controllers import controllers_of
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from rollwright.algorithms.regularizers.entropy_bonus import entropy_regularizer
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from rollwright.batches import update_metrics
from tests.learner.small import batch_of, learner_of, two_turn_groups
from tests.runtime.fakes import noon


def with_bonus(controller):
    objective = replace(grpo(), regularizers=(entropy_regularizer(controller),))
    return replace(objective, needs=objective.needs | {"entropy"})


def test_each_update_of_a_step_has_the_coefficient_that_the_one_before_it_left():
    objective = with_bonus(LinearAnneal(start=1.0, end=0.0, over=4))
    batch = batch_of(two_turn_groups(2), objective)
    outcome = learner_of(num_minibatches=2, num_epochs=2).train(batch, objective, first_update=1)
    assert [done.outcome.coefficients["entropy"] for done in outcome.updates] == [1.0, 0.75, 0.5, 0.25]
    assert controllers_of(objective)["entropy"].value() == 0.0
    metrics = [update_metrics(plan, done, objective, now=noon()) for plan, done in outcome.updates]
    logged = [[m.value for m in found if m.name == "entropy/coef"] for found in metrics]
    assert logged == [[1.0], [0.75], [0.5], [0.25]]


def test_a_controller_sees_the_metrics_as_they_are_logged():
    seen = []

    class Watching(MagicEntropy):
        def observe(self, metrics):
            seen.append(dict(metrics))

    objective = with_bonus(Watching())
    batch = batch_of(two_turn_groups(2), objective)
    (done,) = learner_of().train(batch, objective, first_update=1).updates
    found = update_metrics(done.plan, done.outcome, objective, now=noon())
    logged = {m.name: m.value for m in found if set(m.labels) == {"model"}}
    assert seen[0]["entropy/full"] == pytest.approx(logged["entropy/full"])
    assert seen[0]["policy/kl_ref"] != seen[0]["policy/kl_ref"]  # no reference: undefined
    assert seen[0]["entropy/coef"] == 0.0


def test_a_skipped_update_is_not_observed():
    objective = with_bonus(LinearAnneal(start=1.0, end=0.0, over=4))
    groups = [
        replace(g, members=tuple(replace(m, outcome="unscorable") for m in g.members)) for g in two_turn_groups(1)
    ]
    (done,) = learner_of().train(batch_of(groups, objective), objective, first_update=1).updates
    assert not done.outcome.is_applied
    assert done.outcome.coefficients == {"entropy": 1.0}
    assert controllers_of(objective)["entropy"].value() == 1.0
