"""What the token budget of a micro-batch counts, by the way rows go through the model."""

from dataclasses import replace

import numpy as np
import pytest

from rollwright.algorithms.presets import grpo
from rollwright.batches import Counted, cut, plan_updates
from rollwright.learner.forward import Path
from tests.learner.small import batch_of, learner_of, two_turn_groups


@pytest.mark.parametrize("path", [Path.DENSE, Path.PACKED])
def test_a_beginning_counts_once_where_the_model_computes_it_once(path):
    assert replace(learner_of().scorer, path=path).counted is Counted.DISTINCT


def test_rows_that_are_padded_count_whole():
    counted = replace(learner_of().scorer, path=Path.PADDED).counted
    batch = batch_of(two_turn_groups(), grpo())
    (plan,) = plan_updates(batch, grpo(), first_update=1, num_minibatches=1)
    budget = 2 * int(np.diff(batch.row_offsets).max())
    pieces = cut(plan, token_budget=budget, counted=counted)
    assert len(pieces) > 1 and all(len(micro.token_ids) <= budget for micro in pieces)
