"""The parents of spans are kept, and what no scored path leads to gets no credit."""

from dataclasses import replace

import pytest

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.presets import score_function
from rollwright.batches import plan_step
from rollwright.record import RecordError, branches
from rollwright.record.codec import decode_trajectories, encode_trajectories
from tests.batches.episodes import ON_POLICY, POLICY, Forest, chat, episode, group, verdict_on


def forked():
    """A shared beginning with three ways to go on: two were scored, the grader of the last one failed."""
    forest = Forest()
    forest.add("task", 1)
    shared = forest.add("policy", 2)
    leaves = [forest.add("policy", 2, after=shared, context=number) for number in range(3)]
    name = "t000000-00-0"
    verdicts = [verdict_on(name, leaf, outcome) for leaf, outcome in zip(leaves, (1.0, 0.0, "timeout"), strict=True)]
    return shared, leaves, episode(forest.segments, outcome=0.5, verdicts=verdicts)


@pytest.mark.row("S311")
def test_a_graph_of_spans_round_trips_and_spans_that_no_score_reaches_get_no_credit():
    shared, (left, right, lost), member = forked()
    encoded = encode_trajectories([member])
    (back,) = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    edges = [(s.segment, s.parent, s.context) for s in member.trajectory.segments]
    assert [(s.segment, s.parent, s.context) for s in back.trajectory.segments] == edges
    assert branches(back.trajectory.segments) == branches(member.trajectory.segments)
    objective = score_function("centered", credit=center_within_group, weights=TokenMean())
    groups = [group(back, episode(chat(("task", 1), ("policy", 2)), slot=1, outcome=0.0))]
    batch = plan_step(groups, step=1, objective=objective, eligible=POLICY, rules=ON_POLICY)
    owned = {segment for row in batch.rows if row.member == 0 and row.withheld is None for segment in row.owns}
    assert owned == {shared, left, right}
    rows = [number for number, row in enumerate(batch.rows) if row.member == 0 and row.owns == (lost,)]
    assert len(rows) == 1 and batch.rows[rows[0]].withheld == "unscored"
    start, end = batch.row_offsets[rows[0]], batch.row_offsets[rows[0] + 1]
    assert not batch.action_mask[start:end].any() and not batch.advantages[start:end].any()


def test_a_span_without_a_way_to_it_is_no_part_of_a_trajectory():
    _, _, member = forked()
    segments = list(member.trajectory.segments)
    segments[-1] = replace(segments[-1], parent=17)
    with pytest.raises(RecordError, match="parent is an earlier segment"):
        replace(member.trajectory, segments=tuple(segments))
