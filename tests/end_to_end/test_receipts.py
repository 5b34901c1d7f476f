"""Every gradient has a receipt, and every receipt says what the engine really did."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rollwright.algorithms import loss_terms, supervised
from rollwright.batches import BatchRules, cut, plan_step, plan_updates
from rollwright.evidence import Checkpoint, RunFolder, StoredRun, check, connect
from rollwright.learner.causal_learner import streams_of
from rollwright.learner.logprobs import TokenScores
from rollwright.record import Segment, Trajectory
from tests.end_to_end.conftest import Recorded

SUPERVISED_STEPS = tuple(range(1, 41))
RL_STEPS = (41, 42)


@dataclass(frozen=True, slots=True)
class Sampled:
    """One sampled token."""

    trajectory_id: str
    turn: int
    place: int
    token_id: int
    logprob: float
    version: int


def test_every_trained_token_is_what_the_engine_gave(recorded: Recorded) -> None:
    with connect(recorded.path) as connection:
        _lay_out(connection, recorded)
        trained = connection.execute(
            """SELECT count(*), count(*) FILTER (r.token_id IS NULL OR t.token_id <> r.token_id
                 OR t.logprob <> r.logprob OR t.version <> r.version)
               FROM trained t LEFT JOIN recorded r USING (trajectory_id, turn, place)"""
        ).fetchone()
    assert trained is not None
    assert trained[0] > 500
    assert trained[1] == 0


def test_a_token_that_the_engine_did_not_give_would_be_found(recorded: Recorded) -> None:
    with connect(recorded.path) as connection:
        _lay_out(connection, recorded)
        connection.execute("UPDATE recorded SET logprob = logprob + 1e-6 WHERE place = 3")
        found = connection.execute(
            """SELECT count(*) FROM trained t JOIN recorded r USING (trajectory_id, turn, place)
               WHERE t.logprob <> r.logprob"""
        ).fetchone()
    assert found is not None
    assert found[0] > 10


def test_whatever_the_engine_gave_is_stored_once(recorded: Recorded) -> None:
    stored = sorted((s.trajectory_id, s.turn, s.place, s.token_id, s.version) for s in _stored(recorded.path))
    given = sorted((s.trajectory_id, s.turn, s.place, s.token_id, s.version) for s in _given(recorded))
    assert stored == given


def test_1000_sampled_tokens_score_the_same_in_plain_transformers(recorded: Recorded) -> None:
    run = StoredRun(recorded.path)
    checkpoints = {c.step: c.path for c in RunFolder.open(recorded.path).checkpoints() if isinstance(c, Checkpoint)}
    differences: list[float] = []
    for step in RL_STEPS:
        members = [m.trajectory for group in run.groups("train", step) for m in group.members]
        version = step - 1
        assert {s.policy_version for t in members for s in t.segments if s.origin == "policy"} == {version}
        model = AutoModelForCausalLM.from_pretrained(checkpoints[version], dtype=torch.float32)
        for trajectory in members:
            differences += _differences(model, trajectory)
    assert len(differences) >= 1000
    assert max(differences) < 1e-4


def test_a_checkpoint_loads_with_its_tokenizer_in_plain_transformers(recorded: Recorded) -> None:
    folder = recorded.path / "checkpoints" / "step-000042"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "what is 1 + 2?"}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert len(ids) > 5
    assert AutoModelForCausalLM.from_pretrained(folder).config.vocab_size >= max(ids)


def test_no_token_of_another_origin_has_a_weight(recorded: Recorded) -> None:
    with connect(recorded.path) as connection:
        origins = connection.execute(
            "SELECT DISTINCT component, origin FROM receipts JOIN segments USING (trajectory_id, segment) ORDER BY 1"
        ).fetchall()
        others = connection.execute("SELECT DISTINCT origin FROM segments ORDER BY 1").fetchall()
    assert origins == [("nll", "demonstration"), ("policy_gradient", "policy")]
    assert {"tool", "user", "task", "template"} <= {origin for (origin,) in others}


def test_weights_of_every_update_sum_to_what_the_denominator_says(recorded: Recorded) -> None:
    report = check(recorded.path)
    assert report.findings == ()
    assert report.not_checked == ()
    with connect(recorded.path) as connection:
        sums = connection.execute(
            """SELECT update, sum(list_sum(expand(token_weight))), any_value(value) FROM receipts
               JOIN metrics m USING (update) WHERE m.name = 'weight_sum' GROUP BY update ORDER BY update"""
        ).fetchall()
    assert [update for update, _, _ in sums] == [*SUPERVISED_STEPS, *RL_STEPS]
    for _, found, due in sums:
        assert due == 1.0  # a mean over tokens
        assert found == pytest.approx(due, abs=1e-9)


def test_the_gradient_of_what_a_tool_said_is_exactly_zero(recorded: Recorded) -> None:
    run = StoredRun(recorded.path)
    num_of_tools = 0
    for step in SUPERVISED_STEPS[:3]:
        eligible: frozenset[tuple[str, str | None]] = frozenset({("demonstration", None)})
        batch = plan_step(
            run.groups("demonstration", step),
            step=step,
            objective=supervised(),
            eligible=eligible,
            rules=BatchRules(max_lag=0),
        )
        (plan,) = plan_updates(batch, supervised(), first_update=step, num_minibatches=1)
        for micro in cut(plan, token_budget=4096):
            logprobs = torch.full((len(micro.token_ids),), -2.0, requires_grad=True)
            places = torch.arange(len(micro.token_ids))
            scores = TokenScores(logprobs=logprobs, entropy=torch.zeros(len(micro.token_ids)))
            terms = loss_terms(supervised(), streams_of(micro, supervised(), places, scores), micro.token_weights)
            terms.loss.backward()
            assert logprobs.grad is not None
            origin = _origins(batch, micro.token_index.numpy())
            num_of_tools += int((origin == "tool").sum())
            assert (logprobs.grad[torch.tensor(origin != "demonstration")] == 0).all()
            assert (logprobs.grad[torch.tensor(origin == "demonstration")] != 0).all()
    assert num_of_tools > 20


def test_a_receipt_gives_the_gradient_back(recorded: Recorded) -> None:
    # At equal weights the ratio is 1, so the loss of a segment is -sum(weight * advantage), from the receipt alone.
    with connect(recorded.path) as connection:
        rows = connection.execute(
            """SELECT loss, list_sum(list_transform(list_zip(expand(token_weight), expand(advantage)),
                 lambda x: x[1] * x[2]))
               FROM receipts WHERE component = 'policy_gradient' AND num_kept > 0"""
        ).fetchall()
    assert len(rows) >= 64
    assert any(abs(loss) > 1e-4 for loss, _ in rows)
    for loss, weighed in rows:
        assert loss == pytest.approx(-weighed, abs=1e-7)


def test_engine_and_learner_agree_at_equal_weights(recorded: Recorded) -> None:
    with connect(recorded.path) as connection:
        found = connection.execute(
            """SELECT max(abs(p - b)), count(*) FROM (
                 SELECT unnest(proximal_logprobs) AS p, unnest(behavior_logprobs) AS b
               FROM receipts JOIN segments USING (trajectory_id, segment) WHERE component = 'policy_gradient')"""
        ).fetchone()
    assert found is not None
    assert found[1] > 1000
    assert found[0] < 1e-4
    assert recorded.result.max_mismatch == pytest.approx(found[0], abs=1e-9)


def _given(recorded: Recorded) -> Iterator[Sampled]:
    """What passed the recorder."""
    places: dict[tuple[str, int], int] = defaultdict(int)
    for item in recorded.chunks:
        trajectory_id, _, turn = item.request.request_id.rpartition("/t")
        for token_id, logprob in zip(item.chunk.token_ids, item.chunk.behavior_logprobs, strict=True):
            key = (trajectory_id, int(turn))
            yield Sampled(*key, places[key], int(token_id), float(logprob), item.chunk.policy_version)
            places[key] += 1


def _stored(path: Path) -> Iterator[Sampled]:
    """What the run folder says was sampled."""
    with connect(path) as connection:
        rows = connection.execute(
            """SELECT trajectory_id, turn, token_ids, behavior_logprobs, policy_version FROM segments
               WHERE origin = 'policy' ORDER BY trajectory_id, segment"""
        ).fetchall()
    places: dict[tuple[str, int], int] = defaultdict(int)
    for trajectory_id, turn, token_ids, logprobs, version in rows:
        for token_id, logprob in zip(token_ids, logprobs, strict=True):
            yield Sampled(trajectory_id, turn, places[trajectory_id, turn], token_id, logprob, version)
            places[trajectory_id, turn] += 1


def _lay_out(connection: duckdb.DuckDBPyConnection, recorded: Recorded) -> None:
    """The recorder's tokens as a table beside the run's, and those of the run that have a receipt."""
    rows = [asdict(sampled) for sampled in _given(recorded)]
    columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    schema = pa.schema([pa.field(name, column.type) for name, column in columns.items()])
    given = pa.Table.from_arrays(list(columns.values()), schema=schema)
    connection.register("given", given)
    connection.execute("CREATE TABLE recorded AS SELECT * REPLACE (logprob::FLOAT AS logprob) FROM given")
    connection.execute(
        """CREATE TABLE trained AS SELECT trajectory_id, turn, row_number() OVER (PARTITION BY trajectory_id, turn
             ORDER BY segment, number) - 1 AS place, token_id, logprob, version
           FROM (SELECT trajectory_id, turn, segment, policy_version AS version, unnest(token_ids) AS token_id,
             unnest(behavior_logprobs) AS logprob, unnest(range(len(token_ids))) AS number
             FROM receipts JOIN segments USING (trajectory_id, segment) WHERE component = 'policy_gradient')"""
    )


def _differences(model: torch.nn.Module, trajectory: Trajectory) -> list[float]:
    """|stored - computed| of every sampled token of a trajectory that has one context."""
    context: list[int] = []
    due: list[tuple[int, Segment]] = []
    for segment in trajectory.segments:
        assert segment.context == 0
        if segment.origin == "policy":
            due.append((len(context), segment))
        context += segment.token_ids.tolist()
    with torch.no_grad():
        logits = model(torch.tensor([context])).logits[0].double()
    found: list[float] = []
    for begin, segment in due:
        assert segment.sampling is not None
        assert segment.behavior_logprobs is not None
        places = torch.arange(begin, begin + segment.num_tokens)
        scores = torch.log_softmax(logits[places - 1] / segment.sampling.temperature, dim=-1)
        computed = scores.gather(1, torch.tensor(segment.token_ids, dtype=torch.int64)[:, None])[:, 0]
        found += np.abs(computed.numpy() - segment.behavior_logprobs).tolist()
    return found


def _origins(batch, index) -> np.ndarray:
    """Origin of each token of a piece."""
    rows = np.searchsorted(batch.row_offsets, index, side="right") - 1
    return np.array(
        [
            batch.members[batch.rows[row].member].trajectory.segments[batch.segment_ids[at]].origin
            for row, at in zip(rows, index, strict=True)
        ]
    )
