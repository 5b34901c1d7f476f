"""Records survive storage bit for bit, and what cannot be stored is refused with its place."""

import dataclasses
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rollwright.record import (
    Receipt,
    RecordError,
    Runs,
    Sampling,
    ScoredTrajectory,
    Segment,
    Trajectory,
    ids,
    logprobs,
)
from rollwright.record.arrays import Lists, lists_of
from rollwright.record.codec import (
    INLINE_TENSOR_BYTES,
    ReceiptTable,
    ScoredVerdict,
    decode_evaluations,
    decode_ledger,
    decode_metrics,
    decode_receipts,
    decode_trajectories,
    decode_verdicts,
    encode_evaluations,
    encode_ledger,
    encode_metrics,
    encode_receipts,
    encode_trajectories,
    encode_verdicts,
)
from rollwright.record.columns import encode_columns
from rollwright.record.run_length import run_length, run_lengths
from rollwright.record.tables import FLOAT, RECEIPTS, Column, ListOf, Table
from tests.evidence.runs import scored_trajectory
from tests.record import strategies as s
from tests.record.strategies import same


@settings(max_examples=50)
@given(st.lists(s.receipts, max_size=4))
def test_receipts_round_trip(rows):
    assert same(decode_receipts(encode_receipts(rows)), tuple(rows))


@given(st.lists(s.ledger_rows, max_size=4))
def test_ledger_rows_round_trip(rows):
    assert same(decode_ledger(encode_ledger(rows)), tuple(rows))


@given(st.lists(s.metrics, max_size=4))
def test_metrics_round_trip(rows):
    assert same(decode_metrics(encode_metrics(rows)), tuple(rows))


@given(st.lists(s.evaluation_rows, max_size=4))
def test_evaluation_rows_round_trip(rows):
    assert same(decode_evaluations(encode_evaluations(rows)), tuple(rows))


@given(st.lists(st.builds(ScoredVerdict, scoring=st.integers(0, 3), verdict=s.verdicts("t000001-00-0")), max_size=4))
def test_verdicts_of_every_scoring_round_trip(rows):
    assert same(decode_verdicts(encode_verdicts(rows)), tuple(rows))


def one_payload_a_task(trajectories: list[ScoredTrajectory]) -> list[ScoredTrajectory]:
    """Task ids are digests: equal ids have equal tasks."""
    tasks = {t.trajectory.task.task_id: t.trajectory.task for t in trajectories}
    return [
        dataclasses.replace(t, trajectory=dataclasses.replace(t.trajectory, task=tasks[t.trajectory.task.task_id]))
        for t in trajectories
    ]


@settings(max_examples=40)
@given(st.data())
def test_trajectories_round_trip_with_segments_calls_verdicts_tensors_and_artifacts(data):
    made = one_payload_a_task([data.draw(s.trajectories(slot=i)) for i in range(data.draw(st.integers(0, 3)))])
    encoded = encode_trajectories(made)
    assert same(decode_trajectories(encoded.tables, encoded.blobs.__getitem__), tuple(made))


@settings(max_examples=10)
@given(st.data())
def test_decoded_arrays_are_read_only(data):
    made = data.draw(s.trajectories())
    encoded = encode_trajectories([made])
    [back] = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    for segment in back.trajectory.segments:
        assert not segment.token_ids.flags.writeable
        assert segment.behavior_logprobs is None or not segment.behavior_logprobs.flags.writeable
        assert all(not tensor.flags.writeable for tensor in segment.tensors.values())


def policy_segment(number: int, parent: int | None, start: int, tokens: list[int], version: int, **more) -> Segment:
    return Segment(
        segment=number,
        parent=parent,
        context=0,
        start=start,
        origin="policy",
        actor="agent",
        turn=1,
        token_ids=ids(tokens),
        behavior_logprobs=logprobs([-0.5] * len(tokens)),
        policy="policy",
        policy_version=version,
        cache_version=version,
        sampling=Sampling(temperature=0.7),
        **more,
    )


def scored(example: ScoredTrajectory, *segments: Segment) -> ScoredTrajectory:
    return dataclasses.replace(example, trajectory=dataclasses.replace(example.trajectory, segments=tuple(segments)))


@pytest.fixture
def example() -> ScoredTrajectory:
    return scored_trajectory(group_id=1, slot=0)


@pytest.mark.row("S235")
def test_a_swap_in_mid_turn_keeps_versions_and_boundaries(example):
    before = policy_segment(0, None, 0, [11, 12], 7, finish="swapped")
    after = policy_segment(1, 0, 2, [13, 14, 15], 8, finish="stop_token")
    encoded = encode_trajectories([scored(example, before, after)])
    [back] = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    stored = [(s.policy_version, s.start, s.start + s.num_tokens, s.finish) for s in back.trajectory.segments]
    assert stored == [(7, 0, 2, "swapped"), (8, 2, 5, "stop_token")]


@pytest.mark.case("F75")
def test_span_form_of_a_swap_is_the_stored_form(example):
    segments = (policy_segment(0, None, 0, [1, 2], 7), policy_segment(1, 0, 2, [3, 4, 5], 8))
    encoded = encode_trajectories([scored(example, *segments)])
    [back] = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    versions = [s.policy_version for s in back.trajectory.segments for _ in s.token_ids]
    assert versions == [7, 7, 8, 8, 8]


def test_large_tensors_become_blobs_and_small_ones_stay_inline(example):
    big = np.zeros(INLINE_TENSOR_BYTES // 4 + 1, dtype=np.int32)
    routes = np.arange(6, dtype=np.uint8).reshape(2, 3)
    segment = policy_segment(0, None, 0, [1, 2], 0, tensors={"support_ids": big, "routed_experts": routes})
    encoded = encode_trajectories([scored(example, segment)])
    assert {len(b) for b in encoded.blobs.values()} == {big.nbytes, len(example.trajectory.artifacts["log.txt"])}
    [back] = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    assert same(back.trajectory.segments[0].tensors, {"support_ids": big, "routed_experts": routes})


def test_a_task_that_a_group_shares_is_stored_once(example):
    other = dataclasses.replace(example.trajectory, trajectory_id="t000001-01-0", slot=1)
    encoded = encode_trajectories([example, dataclasses.replace(example, trajectory=other)])
    assert encoded.tables["tasks"].num_rows == 1


def test_a_time_of_another_zone_is_stored_as_the_same_moment(example):
    india = timezone(timedelta(hours=5, minutes=30))
    moved = dataclasses.replace(example.trajectory, started_at=example.trajectory.started_at.astimezone(india))
    encoded = encode_trajectories([dataclasses.replace(example, trajectory=moved)])
    [back] = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    assert back.trajectory.started_at == example.trajectory.started_at
    assert back.trajectory.started_at.utcoffset() == timedelta(0)


def test_half_a_surrogate_pair_in_a_text_is_escaped_instead_of_stopping_the_run(example):
    broken = dataclasses.replace(example.trajectory, failure_cause="tool said \ud800")
    encoded = encode_trajectories([dataclasses.replace(example, trajectory=broken)])
    [back] = decode_trajectories(encoded.tables, encoded.blobs.__getitem__)
    assert back.trajectory.failure_cause == "tool said \\ud800"


def change(trajectory: Trajectory, **fields) -> Trajectory:
    return dataclasses.replace(trajectory, **fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"started_at": datetime(2026, 1, 1)}, "started_at.*no zone"),
        ({"slot": 40_000}, "slot"),
        ({"queue_s": float("nan")}, "queue_s.*finite"),
        ({"queue_s": 1e300}, "queue_s.*finite"),
        ({"stage": None}, "stage is missing"),
        ({"group_id": 1.5}, "group_id: expected int and was given float"),
        ({"environment": 7}, "environment: expected str and was given int"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_with_its_place(example, fields, said):
    wrong = dataclasses.replace(example, trajectory=change(example.trajectory, **fields))
    with pytest.raises(RecordError, match=said):
        encode_trajectories([wrong])


def test_a_reward_that_is_not_finite_is_refused(example):
    with pytest.raises(RecordError, match=r"trajectories\.reward"):
        encode_trajectories([dataclasses.replace(example, outcome=float("inf"))])


@settings(max_examples=10)
@given(s.metrics)
def test_a_metric_is_never_nan(metric):
    with pytest.raises(RecordError, match="undefined is null"):
        encode_metrics([dataclasses.replace(metric, value=float("nan"))])


@settings(max_examples=10)
@given(s.receipts)
def test_a_weight_is_always_finite(receipt):
    wrong = dataclasses.replace(receipt, token_weight=run_length(np.array([1.0, np.nan])))
    with pytest.raises(RecordError, match="token_weight"):
        encode_receipts([wrong])


@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])), st.sampled_from([np.float32, np.float64])
)
def test_runs_expand_to_what_they_were_made_of(values, dtype):
    given_values = np.array(values, dtype=dtype)
    runs = run_length(given_values)
    assert same(runs.expand(), given_values)
    assert len(runs.n) == 0 or 2 * len(runs.n) <= len(given_values)
    assert len(runs.n) in (0, len(runs.v))


def test_equal_values_are_one_run():
    assert same(run_length(np.full(9, 0.25)), Runs(n=ids([9]), v=np.array([0.25])))


def test_runs_of_parts_of_a_stream_are_those_of_each_part_by_itself():
    stream = np.array([1.0, 1.0, 1.0, 0.0, -0.0, 2.0, 2.0, 2.0, 2.0])
    spans = np.array([(0, 3), (5, 9), (9, 9), (2, 7), (3, 3), (0, 9)])
    found = run_lengths(stream, spans)
    for (start, stop), n, v in zip(spans.tolist(), parts_of(found.n), parts_of(found.v), strict=True):
        assert same(Runs(n=n, v=v), run_length(stream[start:stop]))
        assert Runs(n=n, v=v).expand().tobytes() == stream[start:stop].tobytes()


def parts_of(lists: Lists) -> list[NDArray[Any]]:
    return np.split(lists.values, np.cumsum(lists.lengths)[:-1])


@given(st.lists(s.receipts, max_size=4))
def test_receipts_as_a_table_are_read_as_the_records_that_they_are(receipts: list[Receipt]):
    halves = [ReceiptTable(encode_receipts(receipts)), ReceiptTable(encode_receipts(receipts[:2]))]
    joined = ReceiptTable.joined(halves)
    assert len(joined) == len(receipts) + len(receipts[:2])
    assert same(tuple(joined), (*receipts, *receipts[:2]))
    assert encode_receipts(joined) is joined.table


@given(s.receipts)
def test_receipts_of_components_stand_beside_each_other(receipt: Receipt):
    parts = [[dataclasses.replace(receipt, step=n) for n in steps] for steps in ((1, 2), (5, 6))]
    found = ReceiptTable.interleaved([ReceiptTable(encode_receipts(part)) for part in parts])
    assert [one.step for one in found] == [1, 5, 2, 6]


@given(s.receipts)
def test_what_has_no_influence_moved_nothing(receipt: Receipt):
    told = {"a": 0.0, "b": 0.5, "c": float("nan")}
    rows = [dataclasses.replace(receipt, trajectory_id=name, influence=value) for name, value in told.items()]
    assert ReceiptTable(encode_receipts(rows)).trajectories_moved() == {"b"}


def test_lists_of_a_stream_are_null_where_none_is_given():
    stream, spans = np.arange(6, dtype=np.float32), np.array([(4, 6), (0, 2), (3, 3)])
    lists = lists_of(stream, spans, np.array([True, False, True]))
    table = Table(name="streams", key=(), columns=(Column(name="of", type=ListOf(FLOAT), is_nullable=True),))
    assert encode_columns(table, {"of": lists}, 3).column("of").to_pylist() == [[4.0, 5.0], None, []]


def test_a_column_of_one_value_a_row_takes_no_lists():
    with pytest.raises(RecordError, match="lists of numbers"):
        encode_columns(RECEIPTS, {"step": lists_of(np.arange(2), np.array([(0, 2)]))}, 1)
