"""Metrics reach each service through its own client, and no service can stop or slow a run."""

import importlib
import importlib.util
import json
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rollwright.evidence.gates import GateRecord
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.exporters.aliases import ALIASES, alias_of
from rollwright.recipes.exporters.client import ExportedRun, ExportRecord
from rollwright.recipes.exporters.mlflow import MlflowExportClient
from rollwright.recipes.exporters.naming import evaluation_values, gate_values, renamed, step_values
from rollwright.recipes.exporters.sending import Sender, SendLimits
from rollwright.recipes.exporters.tensorboard import TensorBoardClient
from rollwright.recipes.exporters.trackio import TrackioClient
from rollwright.recipes.exporters.wandb import WandbClient
from rollwright.recipes.resolve import recipe_toml, resolve, resolve_text
from rollwright.record.gates import Outcome
from rollwright.record.metrics import metric_named
from tests.evidence.runs import evaluation, metric
from tests.evidence.test_gates import record_of
from tests.recipes.exporters.loopback import run_with_loopback_alone


def run_of(folder: Path, resumed_step: int | None = None, history: Sequence[ExportRecord] = ()) -> ExportedRun:
    return ExportedRun(
        run_id="run-1a2b3c4d",
        name="run",
        folder=folder,
        configuration={"run.steps": "2", "run.name": '"run"'},
        resumed_step=resumed_step,
        history=history,
    )


def record(step: int, *, is_last_of_step: bool = True, **values: float) -> ExportRecord:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return ExportRecord(step=step, values=named, is_last_of_step=is_last_of_step)


class TestNames:
    def test_labels_stand_behind_a_name_and_the_trained_model_is_not_named(self):
        values = step_values(
            [
                metric("reward/total", 0.5, step=3),
                metric("reward/total", 0.1, step=3, stat="std"),
                metric("policy/kl_ref", 0.2, step=3, update=5, model="policy"),
                metric("policy/kl_ref", 0.4, step=3, update=6, model="policy"),
                metric("policy/kl_ref", 0.9, step=3, update=6, model="critic"),
                metric("env/tool_calls", None, step=3, tool="a b(c)"),
            ]
        )
        assert values == {
            "reward/total": 0.5,
            "reward/total.stat:std": 0.1,
            "policy/kl_ref": pytest.approx(0.3),
            "policy/kl_ref.model:critic": 0.9,
            "env/tool_calls.tool:a b_c_": None,
        }

    def test_an_evaluation_stands_with_its_interval(self):
        values = evaluation_values(evaluation(4).evaluations)
        assert values == {
            "eval/held-out/success": 1.0,
            "eval/held-out/success.low": 0.5,
            "eval/held-out/success.high": 1.0,
        }

    def test_a_gate_stands_with_its_outcome_and_what_was_measured(self):
        def verdict(gate: str, value: float | None, outcome: Outcome) -> GateRecord:
            made = record_of(gate, 3, value=value)
            return replace(made, verdict=replace(made.verdict, outcome=outcome))

        gates = [
            verdict("good", 0.75, "passed"),
            verdict("bad (held out)", 0.25, "failed"),
            verdict("open", 0.5, "not enough evidence"),
            verdict("none", None, "not enough evidence"),
        ]
        assert gate_values(gates) == {
            "gate/good": 1.0,
            "gate/good.measured": 0.75,
            "gate/bad _held out_": 0.0,
            "gate/bad _held out_.measured": 0.25,
            "gate/open": None,
            "gate/open.measured": 0.5,
            "gate/none": None,
            "gate/none.measured": None,
        }

    def test_names_of_others_are_used_where_they_have_one_and_ours_are_kept_apart(self):
        values = {"reward/total": 0.5, "reward/component.component:exact": 0.25, "stale/num_versions": 1.0, "a": None}
        assert renamed(values, "rollwright") == {k: v for k, v in values.items() if v is not None}
        assert renamed(values, "trl") == {
            "reward": 0.5,
            "rewards/exact/mean": 0.25,
            "rollwright/stale/num_versions": 1.0,
        }
        assert renamed(values, "verl")["critic/rewards/mean"] == 0.5

    @pytest.mark.parametrize("alias", ALIASES, ids=lambda alias: alias.ours)
    def test_every_alias_is_of_a_metric_that_there_is(self, alias):
        assert metric_named(alias.ours.partition(".")[0]) is not None
        assert alias.trl or alias.verl
        name = alias.ours.replace("*", "exact")
        assert alias_of(name, "trl") == (alias.trl and alias.trl.replace("*", "exact"))
        assert alias_of(name, "verl") == (alias.verl and alias.verl.replace("*", "exact"))

    def test_the_table_for_people_has_the_same_rows(self):
        text = (Path(__file__).parents[3] / "docs/how-to/send-metrics-elsewhere.md").read_text()
        rows = [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in text.splitlines()]
        table = [row for row in rows if len(row) == 3 and "/" in row[0]]
        assert table == [[alias.ours, alias.trl or "", alias.verl or ""] for alias in ALIASES]

    @pytest.mark.parametrize("names", ["trl", "verl"])
    def test_no_two_of_ours_get_one_name_and_none_is_the_folder_of_another(self, names):
        theirs = [one for alias in ALIASES if (one := alias.trl if names == "trl" else alias.verl)]
        assert len(theirs) == len(set(theirs))
        assert not [(a, b) for a in theirs for b in theirs if b.startswith(f"{a}/")]


class TestTensorBoard:
    def read(self, folder: Path) -> dict[str, list[tuple[int, float]]]:
        reader = EventAccumulator(str(folder))
        reader.Reload()
        tags: Any = reader.Tags()
        return {tag: [(event.step, round(event.value, 6)) for event in reader.Scalars(tag)] for tag in tags["scalars"]}

    def test_its_own_reader_reads_values_and_configuration_back(self, tmp_path):
        client = TensorBoardClient(folder=None)
        client.begin(run_of(tmp_path))
        client.log(record(1, reward__total=0.5, eval__success=0.25))
        client.log(record(2, reward__total=0.75))
        client.end()
        folder = tmp_path / "tensorboard"
        assert self.read(folder) == {"reward/total": [(1, 0.5), (2, 0.75)], "eval/success": [(1, 0.25)]}
        reader = EventAccumulator(str(folder))
        reader.Reload()
        (text,) = reader.Tensors("configuration/text_summary")
        assert "| run.steps | `2` |" in text.tensor_proto.string_val[0].decode()

    def test_after_a_resume_steps_that_never_happened_are_gone_and_the_others_stand_once(self, tmp_path):
        first = TensorBoardClient(folder=tmp_path)
        first.begin(run_of(tmp_path))
        for step in (1, 2, 3):
            first.log(record(step, reward__total=0.1 * step))
        first.end()
        second = TensorBoardClient(folder=tmp_path)
        second.begin(run_of(tmp_path, 1, [record(1, reward__total=0.1)]))
        second.log(record(2, reward__total=0.9))
        second.end()
        assert self.read(tmp_path) == {"reward/total": [(1, 0.1), (2, 0.9)]}

    def test_what_a_kill_kept_from_the_disk_is_shown_after_a_resume(self, tmp_path):
        first = TensorBoardClient(folder=tmp_path)
        first.begin(run_of(tmp_path))
        first.log(record(1, reward__total=0.1))
        first.end()  # Steps 2 and 3 were committed and never written here.
        second = TensorBoardClient(folder=tmp_path)
        second.begin(run_of(tmp_path, 3, [record(step, reward__total=0.1 * step) for step in (1, 2, 3)]))
        second.log(record(4, reward__total=0.4))
        second.end()
        assert self.read(tmp_path) == {"reward/total": [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]}


class TestMlflow:
    def client(self, folder: Path) -> MlflowExportClient:
        return MlflowExportClient(uri=f"file://{folder}/mlruns", experiment="trials", run_name="")

    def stored(self, folder: Path, key: str) -> tuple[Any, list[tuple[int, float]]]:
        from mlflow.tracking import MlflowClient

        reader = MlflowClient(tracking_uri=f"file://{folder}/mlruns")
        found = reader.get_experiment_by_name("trials")
        assert found is not None
        (run,) = reader.search_runs([found.experiment_id])
        return run, [(m.step, m.value) for m in reader.get_metric_history(run.info.run_id, key)]

    def test_its_own_client_reads_values_and_configuration_back_and_a_resume_goes_on_in_the_same_run(self, tmp_path):
        first = self.client(tmp_path)
        first.begin(run_of(tmp_path))
        for step in (1, 2):
            first.log(record(step, is_last_of_step=False, eval__success=0.5))
            first.log(record(step, reward__total=0.1 * step, reward__std=0.0))
        first.end()
        again = self.client(tmp_path)
        # Step 3 was committed and never sent; step 2 is among what happened, and is there.
        again.begin(run_of(tmp_path, 3, [record(step, reward__total=0.1 * step) for step in (1, 2, 3)]))
        again.log(record(4, reward__total=0.4))
        again.end()
        run, values = self.stored(tmp_path, "reward/total")
        assert values == [(1, 0.1), (2, 0.2), (3, pytest.approx(0.3)), (4, 0.4)]
        assert run.data.params == {"run.steps": "2", "run.name": '"run"'}
        assert run.info.status == "FINISHED" and run.info.run_name == "run"
        assert self.stored(tmp_path, "eval/success")[1] == [(1, 0.5), (2, 0.5)]


@pytest.mark.slow
class TestWandb:
    def test_its_offline_files_hold_values_and_configuration(self, tmp_path):
        client = WandbClient(project="trials", entity="", run_name="", mode="offline", folder=tmp_path)
        client.begin(run_of(tmp_path))
        client.log(record(1, is_last_of_step=False, eval__success=0.5))
        client.log(record(1, reward__total=0.5))
        client.log(record(2, reward__total=0.75))
        client.end()
        (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
        history, config = wandb_rows(file)
        assert [{k: v for k, v in row.items() if not k.startswith("_")} for row in history] == [
            {"eval/success": 0.5, "reward/total": 0.5},
            {"reward/total": 0.75},
        ]
        assert [row["_step"] for row in history] == [1, 2]
        assert config["run.steps"] == "2"


def wandb_rows(file: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """History and configuration of an offline run, by the client's own messages.

    A process of the client writes the file, and may be at it when the run has ended.
    """
    end = time.monotonic() + 60
    messages = wandb_messages(file)
    while not any(one.WhichOneof("record_type") == "exit" for one in messages):
        assert time.monotonic() < end, "the file never came to its end"
        time.sleep(0.05)
        messages = wandb_messages(file)
    history: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    for one in messages:
        if one.WhichOneof("record_type") == "history":
            history.append(
                {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in one.history.item}
            )
        if one.WhichOneof("record_type") == "run":
            config |= {item.key: json.loads(item.value_json) for item in one.run.config.update}
    return history, config


def wandb_messages(file: Path) -> list[Any]:
    kind: Any = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    return [kind.FromString(content) for content in records_of(file.read_bytes())]


def records_of(content: bytes) -> Iterator[bytes]:
    """The whole records of a file in LevelDB's log format, behind a header of 7 bytes; a block has 32 KiB."""
    place, parts = 7, b""
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", content[place : place + 7])
        if place + 7 + size > len(content):
            return
        parts += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


@pytest.mark.skipif(importlib.util.find_spec("trackio") is not None, reason="trackio is installed here")
def test_a_service_whose_package_is_not_installed_is_named_with_its_extra(tmp_path):
    sender = Sender(TrackioClient(project="trials", run_name=""))
    sender.begin(run_of(tmp_path))
    sender.offer(record(1, reward=0.5))
    sender.close()
    assert sender.complaints() == (
        "trackio is not installed, and nothing is sent there; pip install 'rollwright[trackio]'.",
        "trackio did not take 1 of 1 records; the run's folder has them all",
    )


@dataclass(slots=True)
class Unlucky:
    """A service that raises, hangs, or is slow, by the step."""

    raises_at: frozenset[int] = frozenset()
    hangs_at: int | None = None
    fails_to_begin: bool = False
    fails_to_end: bool = False
    taken: list[int] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    name: str = "board"

    def begin(self, run: ExportedRun) -> None:
        if self.fails_to_begin:
            raise ConnectionError("connection refused")

    def log(self, record: ExportRecord) -> None:
        if record.step == self.hangs_at:
            self.release.wait()
        if record.step in self.raises_at:
            raise OSError(28, "No space left on device")
        self.taken.append(record.step)

    def end(self) -> None:
        if self.fails_to_end:
            raise TimeoutError("no answer")


def sent(client: Unlucky, folder: Path, steps: int, **limits: Any) -> tuple[str, ...]:
    """What was complained of, over a whole run of that many steps."""
    sender = Sender(client, SendLimits(**limits))
    sender.begin(run_of(folder))
    for step in range(1, steps + 1):
        sender.offer(record(step, reward=0.5))
    sender.close()
    return sender.complaints()


class TestNothingStopsARun:
    def test_all_is_well(self, tmp_path):
        client = Unlucky()
        assert sent(client, tmp_path, 50) == ()
        assert client.taken == list(range(1, 51))

    def test_a_service_that_cannot_be_reached_is_told_once_and_counted(self, tmp_path):
        assert sent(Unlucky(fails_to_begin=True), tmp_path, 50) == (
            "board cannot be reached, and nothing is sent there: ConnectionError: connection refused",
            "board did not take 50 of 50 records; the run's folder has them all",
        )

    def test_a_record_that_is_not_taken_is_told_once_and_the_others_are_taken(self, tmp_path):
        client = Unlucky(raises_at=frozenset({3, 4, 9}), fails_to_end=True)
        assert sent(client, tmp_path, 10) == (
            "board did not take a record: OSError: [Errno 28] No space left on device",
            "board did not take 3 of 10 records; the run's folder has them all",
        )
        assert client.taken == [1, 2, 5, 6, 7, 8, 10]

    def test_a_service_that_never_takes_anything_is_asked_no_more(self, tmp_path):
        said = sent(Unlucky(raises_at=frozenset(range(100))), tmp_path, 50, failures=5)
        assert said[1] == "board failed 5 times in a row and is asked no more"

    def test_a_service_that_hangs_holds_up_nothing_and_is_left_behind(self, tmp_path):
        client = Unlucky(hangs_at=2)
        began = time.monotonic()
        said = sent(client, tmp_path, 50, queued=10, close_s=0.3)
        assert time.monotonic() - began < 10
        assert said[0] == "board takes records more slowly than the run makes them; some are dropped"
        assert said[1] == "board did not end within 0.3 s and is left behind"
        assert said[2].startswith("board did not take 4") and "of 50 records" in said[2]
        client.release.set()


class TestRecipe:
    def test_a_name_alone_or_a_table_with_options_chooses_a_service(self):
        given = 'exporters=["tensorboard", {kind="wandb", mode="offline", project="mine", names="trl"}]'
        first, second = resolve("arithmetic-tool", [given]).recipe.exporters
        assert (first.kind, first.names) == ("tensorboard", "rollwright")
        assert (second.kind, second.names) == ("wandb", "trl")
        stored = recipe_toml(resolve("arithmetic-tool", [given]).recipe)
        assert resolve_text(stored, origin="run x").recipe.exporters == (first, second)

    def test_a_service_that_there_is_not_is_refused_with_those_that_there_are(self):
        with pytest.raises(RecipeError, match=r"(?s)exporters.*tensorboard.*wandb.*mlflow.*trackio"):
            resolve("arithmetic-tool", ['exporters=["comet"]'])

    def test_where_metrics_are_sent_is_no_part_of_what_a_run_is(self):
        from rollwright.recipes.build.manifest import config_sha256

        def digest_of(settings: Mapping[str, str]) -> str:
            return config_sha256(resolve("arithmetic-tool", [f"{k}={v}" for k, v in settings.items()]).recipe)

        assert digest_of({"exporters": '["tensorboard"]'}) == digest_of({})
        assert digest_of({"run.seed": "3"}) != digest_of({})


OFFLINE = """
import socket
import sys
from pathlib import Path

from rollwright.recipes.exporters.client import ExportedRun, ExportRecord
from rollwright.recipes.exporters.mlflow import MlflowExportClient
from rollwright.recipes.exporters.wandb import WandbClient

assert [name for _, name in socket.if_nameindex()] == ["lo"], "there is more than loopback here"
folder = Path(sys.argv[1])
run = ExportedRun(run_id="r-1", name="r", folder=folder, configuration={"a": "1"}, resumed_step=None)
for client in (
    WandbClient(project="trials", entity="", run_name="", mode="offline", folder=folder),
    MlflowExportClient(uri=f"file://{folder}/mlruns", experiment="trials", run_name=""),
):
    client.begin(run)
    client.log(ExportRecord(step=1, values={"reward/total": 0.5}, is_last_of_step=True))
    client.end()
"""


@pytest.mark.slow
def test_local_stores_and_offline_files_need_no_network(tmp_path: Path):
    """In a namespace of its own, where loopback is all that there is."""
    done = run_with_loopback_alone("-c", OFFLINE, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("wandb/offline-run-*/*.wandb"))) == 1
    assert len(list(tmp_path.glob("mlruns/*/*/metrics/reward/total"))) == 1
