"""What a figure shows is what stands in the Parquet files, computed here by hand without rollwright's readers."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rollwright.record.gates import Outcome
from rollwright.viewer.curves import draw_curve, overlay, thin
from rollwright.viewer.curves_held_out import held_out_curve, pass_at_k_curve
from rollwright.viewer.curves_training import TRAINING_CURVES
from rollwright.viewer.figures import Point, Series
from rollwright.viewer.figures_bars import bottleneck, mixture_bars, parts_bars, terminal_bars
from rollwright.viewer.figures_run import RunNumbers, read_numbers
from rollwright.viewer.figures_tables import excluded_table, ledger_table, tools_table
from rollwright.viewer.figures_tasks import read_task_scores
from tests.viewer.report.runs import Shape, written

RUN = Path(__file__).parents[2] / "data" / "runs" / "after"
"""A small recorded run: real training, with a warm start and evaluations."""


@pytest.fixture(scope="module")
def numbers() -> RunNumbers:
    return read_numbers(RUN)


def committed(table: str) -> list[dict]:
    """Rows of a table: of the shards that commits list, in order of the commits."""
    commits = sorted(RUN.glob("commits/*.json"))
    shards = [s for path in commits for s in json.loads(path.read_text())["shards"] if s["table"] == table]
    return [row for shard in shards for row in pq.ParquetFile(RUN / shard["path"]).read().to_pylist()]


def labels_of(row: dict) -> dict[str, str]:
    return {key: value for key, value in row["labels"] if (key, value) != ("model", "policy")}


def test_quantiles_stand_in_the_order_of_their_numbers(numbers):
    told = [one.labels["quantile"] for one in numbers.lines("len/response", "quantile")]
    assert told == ["0.1", "0.5", "0.9", "0.99"]


def spec_of(slug: str):
    return next(spec for part in TRAINING_CURVES.values() for spec in part if spec.slug == slug)


def test_a_training_curve_is_the_stored_metric_at_every_step(numbers):
    curve = draw_curve(numbers, spec_of("training-reward"))
    batch = next(series for series in curve.series if series.name.startswith("batch"))
    stored = {
        row["step"]: row["value"]
        for row in committed("metrics")
        if row["name"] == "reward/total" and labels_of(row) == {} and row["value"] is not None
    }
    assert stored
    assert {point.step: point.value for point in batch.points if point.value is not None} == stored
    assert [point.x for point in batch.points] == sorted(point.x for point in batch.points)


def test_a_metric_of_several_updates_is_their_mean_by_items(numbers):
    rows = defaultdict(list)
    for row in committed("metrics"):
        if row["name"] == "entropy/full" and labels_of(row) == {} and row["value"] is not None:
            rows[row["step"]].append((row["value"], row["num_items"]))
    line = numbers.line("entropy/full")
    assert line is not None
    for step, value in zip(line.steps, line.values, strict=True):
        pairs = rows[step]
        items = sum(count for _, count in pairs)
        assert value == pytest.approx(sum(v * n for v, n in pairs) / items, rel=1e-12)


def test_a_held_out_point_is_the_mean_over_tasks_of_the_stored_rewards(numbers):
    curve = held_out_curve(numbers)
    [own] = [series for series in curve.series if series.name == "success"]
    scores = {one.step: one for one in read_task_scores(RUN) if one.protocol == "held-out"}
    by_version = evaluated_by_version()
    assert own.points
    for point in own.points:
        tasks = by_version[point.step]
        mean = sum(sum(r) / len(r) for r in tasks.values()) / len(tasks)
        assert point.value == pytest.approx(mean, abs=1e-12)
        assert point.num_items == len(tasks)
        assert scores[point.step].success == {task: sum(r) / len(r) for task, r in tasks.items()}
        assert (point.low or 0.0) <= mean <= (point.high or 0.0)


def evaluated_by_version() -> dict[int, dict[str, list[float]]]:
    """Policy version to held-out task to its successes; the threshold of these runs is 1."""
    versions = {
        row["trajectory_id"]: row["policy_version"]
        for row in committed("segments")
        if row["policy_version"] is not None
    }
    found: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in committed("trajectories"):
        if row["purpose"] == "evaluation" and row["reward"] is not None:
            found[versions[row["trajectory_id"]]][row["task_id"]].append(float(row["reward"] >= 1.0))
    return found


def test_episodes_and_tokens_along_an_axis_are_those_of_the_trained_trajectories(numbers):
    first_step: dict[object, int] = {}
    for row in committed("ledger"):
        if row["trajectory_id"] is not None:
            first_step.setdefault(row["trajectory_id"], row["step"])
    purposes = {row["trajectory_id"]: row for row in committed("trajectories")}
    for row in committed("receipts"):
        if purposes[row["trajectory_id"]]["purpose"] == "demonstration":
            first_step.setdefault(row["trajectory_id"], row["step"])
    last = numbers.cost_at(numbers.last_step)
    assert last.episodes == len(first_step)
    assert last.tokens == sum(purposes[name]["num_action_tokens"] for name in first_step)
    curve = held_out_curve(numbers, "success", "episodes")
    assert curve.series[0].points[-1].x == last.episodes


def test_seconds_are_those_of_the_steps_without_evaluations(numbers):
    names = ("time/collect", "time/learn", "time/publish", "time/save")
    due = sum(row["value"] or 0.0 for row in committed("metrics") if row["name"] in names and not row["labels"])
    assert numbers.cost_at(numbers.last_step).seconds == pytest.approx(due)


def test_the_ledger_is_the_last_state_of_every_slot(numbers):
    last = {(row["group_id"], row["slot"]): row for row in sorted(committed("ledger"), key=lambda row: row["seq"])}
    due = Counter((row["task_source"], row["state"], row["rule"] or "") for row in last.values())
    table = ledger_table(numbers)
    assert {tuple(row[:3]): row[3] for row in table.rows[:-1]} == dict(due)
    assert table.rows[-1][3] == len(last)
    assert "as the metric data/slots says" in table.note


def test_the_mixture_is_the_share_of_each_source_before_and_after(numbers):
    bars = mixture_bars(numbers)
    assert [series.name for series in bars.series] == ["dispatched", "trained"]
    for series in bars.series:
        assert sum(point.value or 0.0 for point in series.points) == pytest.approx(1.0)


def test_ends_are_counted_over_all_attempts(numbers):
    due = Counter((row["purpose"], row["terminal_reason"]) for row in committed("trajectories"))
    bars = terminal_bars(numbers)
    for series in bars.series:
        for point in series.points:
            assert point.num_items == due[series.name, bars.categories[int(point.x)]]


def test_calls_of_tools_are_those_of_the_table(numbers):
    purposes = {row["trajectory_id"]: row["purpose"] for row in committed("trajectories")}
    due = Counter((purposes[row["trajectory_id"]], row["tool"], row["status"]) for row in committed("tool_calls"))
    found = {(row[0], "" if row[1] == "(none named)" else row[1], row[2]): row[3] for row in tools_table(numbers).rows}
    assert found == dict(due)


def test_the_bottleneck_is_the_part_that_was_busy_longest(numbers):
    busy: Counter[str] = Counter()
    for row in committed("metrics"):
        if row["name"] == "time/part" and dict(row["labels"])["state"] == "busy":
            busy[dict(row["labels"])["part"]] += row["value"]
    assert bottleneck(numbers) == max(busy, key=lambda part: busy[part])
    assert f"the bottleneck is {bottleneck(numbers)}" in parts_bars(numbers).note


def test_nothing_excluded_says_so(numbers):
    table = excluded_table(numbers)
    unscored = [r for r in committed("trajectories") if r["unscored_reason"] and r["purpose"] != "demonstration"]
    failed = [r for r in committed("trajectories") if r["failure_class"]]
    assert bool(table.rows) == bool(unscored or failed) and bool(table.absent) == (not table.rows)


def test_every_figure_says_where_its_numbers_come_from(numbers):
    for part in TRAINING_CURVES.values():
        for spec in part:
            figure = draw_curve(numbers, spec)
            assert "FROM metrics WHERE name IN" in figure.provenance.made_by
            assert figure.series or figure.absent
    held_out = held_out_curve(numbers).provenance
    assert held_out.protocol_sha256 == numbers.manifest.evaluation.protocol_sha256
    assert "temperature" in held_out.sampling and "at 0.95" in held_out.interval
    assert dict(held_out.lines())["standing"] == f"measured, {judged_in_the_file('success')}"


def judged_in_the_file(measure: str) -> str:
    """What gates.json says of the gates of this measure: name, outcome and step of each."""
    records = json.loads((RUN / "gates.json").read_text())["gates"]
    told = [
        f"gate {record['verdict']['gate']}: {record['verdict']['outcome']} at step {record['step']}"
        for record in records
        if record["what"].startswith(f"{measure} ")
    ]
    assert told
    return ", ".join(told)


def test_a_number_that_a_gate_judged_names_the_gate_and_its_outcome(tmp_path):
    gates: dict[str, Outcome] = {
        "min of entropy/full": "passed",
        "success (slice easy) under the frozen protocol": "failed",
    }
    made = read_numbers(written(tmp_path / "run", Shape(gates=gates)))
    assert draw_curve(made, spec_of("entropy")).provenance.gate == "gate gate on min of entropy/full: passed at step 2"
    assert draw_curve(made, spec_of("gradient")).provenance.gate == "no gate"
    assert held_out_curve(made).provenance.gate.endswith("failed at step 2")


def test_pass_at_k_stands_beside_pass_at_one_under_its_own_name(numbers):
    stored = {
        row["labels"][0][1]
        for row in committed("evaluations")
        if row["metric"] == "pass_at_k" and len(row["labels"]) == 1
    }
    assert [series.name for series in pass_at_k_curve(numbers).series] == [f"pass@{k}" for k in sorted(stored, key=int)]


def test_a_thousand_points_are_drawn_as_means_of_neighbors_and_the_figure_says_so():
    points = tuple(Point(step=at, x=float(at), value=float(at % 10), num_items=1) for at in range(1, 1201))
    thinned = thin(Series(name="a", unit="", points=points))
    assert len(thinned.points) == 400
    first = thinned.points[0]
    assert (first.value, first.low, first.high, first.step) == (2.0, 1.0, 3.0, 3)
    assert thinned.interval == "smallest and largest of 3 neighboring points"
    assert thin(Series(name="a", unit="", points=points[:400])).points == points[:400]


def test_undefined_values_count_in_no_mean_of_neighbors():
    values = [1.0, None, 3.0] * 400
    points = tuple(Point(step=at, x=float(at), value=value, num_items=2) for at, value in enumerate(values))
    thinned = thin(Series(name="a", unit="", points=points))
    assert {point.value for point in thinned.points} == {2.0}
    assert {point.num_items for point in thinned.points} == {4}


def test_runs_over_each_other_are_named_and_what_they_differ_in_stands_in_their_protocol(numbers):
    curve = held_out_curve(numbers)
    both = overlay([("one", curve), ("other", curve)])
    assert [series.name for series in both.series] == ["one", "other"]
    assert both.provenance.protocol_sha256 == curve.provenance.protocol_sha256
