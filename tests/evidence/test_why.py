"""`why` prints numbers that anyone can work out from the Parquet files: here they are worked out without our code."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rollwright.evidence import EvidenceError, query
from rollwright.evidence.why import Answer, Asked, TokenPlace, step_answer, task_answer, token_answer, trajectory_answer
from tests.evidence.runs import trained_step, written_run

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"
RECORDED = RUNS / "before"


def table(run: Path, name: str) -> list[dict]:
    """All rows of a table, straight from the files that the commits list."""
    commits = [json.loads(path.read_bytes()) for path in sorted((run / "commits").glob("*.json"))]
    paths = [run / shard["path"] for commit in commits for shard in commit["shards"] if shard["table"] == name]
    return pa.concat_tables([pq.read_table(path) for path in paths]).to_pylist()


def spread(runs: dict | None) -> np.ndarray | None:
    if runs is None:
        return None
    return np.asarray(runs["v"]) if not runs["n"] else np.repeat(runs["v"], runs["n"])


class ByHand:
    """The recorded run in plain dictionaries."""

    def __init__(self, run: Path) -> None:
        self.trajectories = {row["trajectory_id"]: row for row in table(run, "trajectories")}
        self.segments = {(row["trajectory_id"], row["segment"]): row for row in table(run, "segments")}
        self.receipts = table(run, "receipts")
        self.metrics = table(run, "metrics")
        self.verdicts = defaultdict(list)
        for row in table(run, "verdicts"):
            self.verdicts[row["trajectory_id"]].append(row)
        self.trained = defaultdict(list)
        for row in table(run, "ledger"):
            if row["state"] == "trained":
                self.trained[row["step"], row["group_id"]].append(row["trajectory_id"])

    def metric(self, name: str, update: int, component: str) -> float:
        wanted = {"model": "policy", "component": component}
        [value] = [
            row["value"]
            for row in self.metrics
            if row["name"] == name and row["update"] == update and dict(row["labels"]) == wanted
        ]
        return value


@pytest.fixture(scope="module")
def by_hand() -> ByHand:
    return ByHand(RECORDED)


@pytest.fixture(scope="module")
def asked():
    with Asked(RECORDED) as run:
        yield run


def near(answer: Answer, name: str, value: float) -> None:
    assert answer.fact(name).value == pytest.approx(value, rel=1e-6, abs=1e-12), name


def test_every_number_of_every_trained_token_of_a_step_is_what_a_person_works_out(asked, by_hand):
    assert compare_by_hand(asked, by_hand, [r for r in by_hand.receipts if r["step"] == 3]) > 200


@pytest.mark.slow
def test_every_number_of_every_trained_token_of_a_run_is_what_a_person_works_out(asked, by_hand):
    assert compare_by_hand(asked, by_hand, by_hand.receipts) > 1000


def compare_by_hand(asked: Asked, by_hand: ByHand, receipts: list[dict]) -> int:
    """Ask for every token that has a weight; how many there were."""
    num_tokens = 0
    for receipt in receipts:
        name, number = receipt["trajectory_id"], receipt["segment"]
        segment, trajectory = by_hand.segments[name, number], by_hand.trajectories[name]
        weights, advantages = spread(receipt["token_weight"]), spread(receipt["advantage"])
        assert weights is not None and advantages is not None
        moved = np.abs(weights * advantages.astype(np.float64))
        total = sum(r["influence"] for r in by_hand.receipts if r["update"] == receipt["update"])
        for index in np.flatnonzero(weights):
            answer = token_answer(asked, TokenPlace(trajectory_id=name, segment=number, index=int(index)))
            num_tokens += 1
            assert answer.fact("token_id").value == segment["token_ids"][index]
            assert answer.fact("position").value == segment["start"] + index
            near(answer, "weight", weights[index])
            near(answer, "advantage", advantages[index])
            near(answer, "contribution", moved[index])
            near(answer, "update_influence", total)
            near(answer, "share", moved[index] / total)
            near(answer, "denominator", by_hand.metric("denominator", receipt["update"], receipt["component"]))
            near(answer, "weight_sum", by_hand.metric("weight_sum", receipt["update"], receipt["component"]))
            assert f"weight = 1 / {answer.fact('denominator').value:.9g}" in answer.fact("weight").text
            flags = spread(receipt["flags"])
            assert flags is not None and answer.fact("flags").value == flags[index]
            assert answer.fact("lag").value == receipt["lag"]
            if trajectory["purpose"] == "train":
                scores_by_hand(answer, segment, receipt, int(index))
                credit_by_hand(answer, by_hand, trajectory, receipt)
                reward_by_hand(answer, by_hand, trajectory)
    return num_tokens


def scores_by_hand(answer: Answer, segment: dict, receipt: dict, index: int) -> None:
    behavior, proximal = segment["behavior_logprobs"][index], receipt["proximal_logprobs"][index]
    assert receipt["current_logprobs"] is None, "one update a step: its current scores are its proximal ones"
    near(answer, "behavior_logprob", behavior)
    near(answer, "proximal_logprob", proximal)
    near(answer, "update_ratio", 1.0)
    near(answer, "staleness_ratio", float(np.exp(proximal - behavior)))
    near(answer, "policy_version", segment["policy_version"])
    near(answer, "temperature", segment["sampling"]["temperature"])


def credit_by_hand(answer: Answer, by_hand: ByHand, trajectory: dict, receipt: dict) -> None:
    group = by_hand.trained[receipt["step"], trajectory["group_id"]]
    cut = ("token_limit", "turn_limit", "context_limit", "wall_clock_limit")
    rewards = [
        0.0 if by_hand.trajectories[m]["terminal_reason"] in cut else by_hand.trajectories[m]["reward"] for m in group
    ]
    own = 0.0 if trajectory["terminal_reason"] in cut else trajectory["reward"]
    near(answer, "baseline", sum(rewards) / len(rewards))
    due = own - sum(rewards) / len(rewards)
    assert answer.fact("advantage_formula").value == pytest.approx(due, abs=1e-9)
    assert answer.fact("advantage").value == pytest.approx(due, abs=1e-6)
    assert answer.find("disagreement") is None


def reward_by_hand(answer: Answer, by_hand: ByHand, trajectory: dict) -> None:
    near(answer, "reward", trajectory["reward"])
    near(answer, "reward", sum(c["weight"] * c["value"] for c in trajectory["reward_components"]))
    for component in trajectory["reward_components"]:
        near(answer, f"part:{component['name']}", component["value"])
    for verdict in by_hand.verdicts[trajectory["trajectory_id"]]:
        near(answer, f"verdict:{verdict['verifier']}", verdict["value"])


def test_the_query_printed_beside_a_fact_gives_that_fact(asked):
    step = step_answer(asked, 3)
    [first] = [part for part in step.parts if part.title.startswith("token ")]
    checked = 0
    for fact in facts(first):
        if fact.source:
            [[value]] = query(RECORDED, fact.source).rows
            assert same(value, fact.value), fact
            checked += 1
    assert checked > 15


def same(asked: object, told: object) -> bool:
    """Numbers as numbers, and lists of them too."""
    try:
        left, right = ([float(part) for part in str(value).split(", ")] for value in (asked, told))
    except ValueError:
        return str(asked) == str(told)
    return left == pytest.approx(right)


def facts(answer: Answer):
    yield from answer.facts
    for part in answer.parts:
        yield from facts(part)


def test_a_step_names_the_tokens_that_felt_it_most(asked, by_hand):
    def pulls():
        for r in by_hand.receipts:
            if r["step"] == 3 and r["influence"]:
                w, a = spread(r["token_weight"]), spread(r["advantage"])
                assert w is not None and a is not None
                for i, p in enumerate(np.exp(np.asarray(r["proximal_logprobs"], np.float64))):
                    yield abs(w[i] * a[i]) * (1 - p), f"token:{r['trajectory_id']}/{r['segment']}/{i}"

    due = sorted(pulls(), key=lambda pair: -pair[0])[:5]
    answer = step_answer(asked, 3, most=5)
    named = [f for f in facts(answer) if f.name.startswith("token:")][:5]
    assert [f.value for f in named] == pytest.approx([value for value, _ in due])
    near(answer, "influence", sum(r["influence"] for r in by_hand.receipts if r["step"] == 3))


def test_what_a_tool_wrote_has_no_weight_and_says_why(asked, by_hand):
    name, number = next(key for key, row in by_hand.segments.items() if row["origin"] == "tool" and key[0][0] == "t")
    answer = token_answer(asked, TokenPlace(trajectory_id=name, segment=number, index=0))
    assert answer.fact("untrained").value == "origin tool"
    said = answer.fact("untrained").text
    assert "it was written by a tool (origin tool)" in said and "only from what was written by" in said
    assert "policy of policy" not in said


def test_where_the_tool_was_trained_the_receipt_of_its_token_is_shown():
    [row] = query(
        RUNS / "fault",
        "SELECT trajectory_id, segment FROM receipts JOIN segments USING (trajectory_id, segment) "
        "WHERE origin = 'tool' AND influence > 0 ORDER BY ALL LIMIT 1",
    ).rows
    with Asked(RUNS / "fault") as asked:
        answer = token_answer(asked, TokenPlace(trajectory_id=str(row[0]), segment=int(str(row[1])), index=0))
    assert answer.fact("origin").value == "tool"
    assert float(str(answer.fact("contribution").value)) > 0


def test_a_held_out_token_was_never_trained(asked, by_hand):
    name, number = next(key for key, row in by_hand.segments.items() if row["origin"] == "policy" and key[0][0] == "e")
    answer = token_answer(asked, TokenPlace(trajectory_id=name, segment=number, index=0))
    assert answer.fact("untrained").value == "evaluation"


def test_a_task_names_every_slot_and_episode_it_came_to(asked, by_hand):
    name = next(row["task_id"] for row in by_hand.trajectories.values() if row["purpose"] == "train")
    answer = task_answer(asked, name)
    episodes = {r["trajectory_id"] for r in by_hand.trajectories.values() if r["task_id"] == name}
    assert {f.name.removeprefix("episode:") for f in facts(answer) if f.name.startswith("episode:")} == episodes
    near(answer, "influence", sum(r["influence"] for r in by_hand.receipts if r["trajectory_id"] in episodes))
    assert len([f for f in facts(answer) if f.name.startswith("slot:")]) == 6


def test_an_episode_tells_its_slot_its_credit_and_its_reward(asked, by_hand):
    name = next(row["trajectory_id"] for row in by_hand.receipts if row["step"] == 2)
    answer = trajectory_answer(asked, name)
    assert answer.fact("slot").value == "trained"
    near(answer, "reward", by_hand.trajectories[name]["reward"])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: step_answer(run, 99), r"no step 99; it has steps 0 to 5"),
        (lambda run: trajectory_answer(run, "t000032-00-9"), "near it are t000032-00-0"),
        (lambda run: task_answer(run, "arithmetic/0"), "no task 'arithmetic/0'"),
        (lambda run: token_answer(run, TokenPlace.of("t000032-00-0/99/0")), "no segment 99; it has 0 "),
        (lambda run: token_answer(run, TokenPlace.of("t000032-00-0/0/999")), "has 21 tokens, 0 to 20"),
        (lambda run: TokenPlace.of("t000032-00-0"), "names no token"),
        (lambda run: trajectory_answer(run, "t000032-00-0", 4), "it was trained in step 2"),
    ],
)
def test_a_wrong_name_is_answered_with_what_there_is(asked, ask, said):
    with pytest.raises(EvidenceError, match=said):
        ask(asked)


@pytest.mark.parametrize("retention", ["runs", "sums"])
def test_what_the_retention_dropped_is_said_and_the_rest_is_told(tmp_path, retention):
    path = written_run(tmp_path / "run", receipts=retention)
    member = trained_step(1).trajectories[0]
    with Asked(path) as asked:
        answer = token_answer(asked, TokenPlace(trajectory_id=member.trajectory_id, segment=1, index=0))
        told = step_answer(asked, 1)
    near(told, "influence", 2.0 * 0.25)
    if retention == "runs":
        near(answer, "weight", 0.05)
        assert answer.find("proximal_logprob") is None
    else:
        near(answer, "influence", 0.5 * 0.05 * 3)
        assert answer.find("weight") is None
        assert "dropped" in told.fact("dropped").text
