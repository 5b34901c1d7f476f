"""Runs that send their metrics elsewhere: each number once and at its step, whatever kills the run; and the guide."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rollwright.evidence import RunFolder, StoredRun
from rollwright.evidence.gates import read_gates
from rollwright.recipes.exporters.naming import evaluation_values, gate_values, step_values
from tests.end_to_end.children import start_command
from tests.end_to_end.gated import began, gated, went_on
from tests.end_to_end.small import RECIPE, ROOT, arguments, commits_of

pytestmark = pytest.mark.training
GUIDE = ROOT / "docs/how-to/send-metrics-elsewhere.md"
STEPS = 5
Numbers = Mapping[str, Sequence[tuple[int, float]]]


def numbers(run: Path) -> Numbers:
    """What the committed tables say, as it is sent, without gates."""
    stored = StoredRun(run)
    rows = list(stored.evaluations())
    found: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for step in stored.steps:
        for values in (evaluation_values([row for row in rows if row.step == step]), step_values(stored.metrics(step))):
            for name, value in values.items():
                if value is not None:
                    found[name].append((step, value))
    return found


def gate_numbers(run: Path) -> Numbers:
    """What `gates.json` says, as it is sent."""
    found: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for gate in read_gates(run):
        for name, value in gate_values([gate]).items():
            if value is not None:
                found[name].append((gate.step, value))
    return found


def in_tensorboard(run: Path) -> Numbers:
    """As its own reader reads it."""
    reader = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    reader.Reload()
    tags = cast("Sequence[str]", reader.Tags()["scalars"])
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in tags}


def in_mlflow(folder: Path, names: Sequence[str]) -> Numbers:
    """As its own client reads it."""
    from mlflow.tracking import MlflowClient

    reader = MlflowClient(tracking_uri=f"file://{folder}")
    experiment = reader.get_experiment_by_name("rollwright")
    assert experiment is not None
    (run,) = reader.search_runs([experiment.experiment_id])
    return {name: [(m.step, m.value) for m in reader.get_metric_history(run.info.run_id, name)] for name in names}


def told(sent: Numbers) -> Mapping[str, Sequence[tuple[int, Any]]]:
    """In single precision, as event files keep numbers; NaN is equal to itself."""
    return {
        name: [(step, pytest.approx(value, rel=1e-6, nan_ok=True)) for step, value in rows]
        for name, rows in sent.items()
    }


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed by SIGKILL twice, in its midst and soon after its resume, and came to its end."""
    folder = tmp_path_factory.mktemp("exported")
    run = folder / "run"
    exporters = f'exporters=["tensorboard", {{kind="mlflow", uri="file://{folder}/mlruns"}}]'
    settings = (f"run.steps={STEPS}", "evaluation.every=2", exporters)
    words: Sequence[str | Path] = ["train", RECIPE, "--json", *arguments(*settings), "--run-dir", run]
    for commits in (5, 7):
        child = start_command(words, folder)
        if not child.wait_for(lambda least=commits: len(commits_of(run)) >= least, timeout_s=200):
            pytest.fail(f"it ended before it was killed: {child.ended()}")
        child.kill()
        words = ["resume", run, "--json"]
    ended = start_command(words, folder).ended(timeout_s=200)
    assert ended.code == 0, ended.err
    return run


class TestKilledRuns:
    def test_metrics_jsonl_has_each_step_and_evaluation_once(self, killed: Path):
        lines = RunFolder.open(killed).metric_lines()
        assert set(Counter((line.kind, line.step) for line in lines).values()) == {1}
        found: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for line in lines:
            for name, value in line.values.items():
                if value is not None:
                    found[name].append((line.step, value))
        assert dict(found) == dict(numbers(killed))

    def test_tensorboard_has_each_number_once_and_none_is_lost(self, killed: Path):
        assert in_tensorboard(killed) == told({**numbers(killed), **gate_numbers(killed)})

    def test_mlflow_has_each_step_once_and_none_is_lost(self, killed: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        expected = numbers(killed)
        there = in_mlflow(killed.parent / "mlruns", [name for name in expected if name.startswith("reward/")])
        assert there
        for name, rows in there.items():
            assert [step for step, _ in rows] == [step for step, _ in expected[name]], name


class TestGates:
    def test_verdicts_stand_once_at_their_steps_also_after_a_pause(self, tmp_path: Path):
        gates = (
            '{name="exploring", kind="metric", metric="entropy/full", bound="at_least", limit=0.01, source="by hand"}',
            '{name="held out", kind="evaluation", bound="at_least", limit=1.0, by="value", source="by hand"}',
        )
        alarm = '{kind="length", rule="threshold", limit=1.0, in_a_row=3, source="by hand", action="pause"}'
        run = tmp_path / "run"
        assert began(run, gated('exporters=["tensorboard"]', gates=", ".join(gates), alarms=alarm)) is not None
        assert went_on(run, acknowledgment="seen") is None
        expected = gate_numbers(run)
        assert {name for name in expected if not name.endswith(".measured")} >= {"gate/exploring", "gate/held out"}
        assert {value for _, value in expected["gate/exploring"]} == {1.0}
        assert {value for _, value in expected["gate/held out"]} == {0.0}
        found = in_tensorboard(run)
        assert {name: rows for name, rows in found.items() if name.startswith("gate/")} == told(expected)


class TestGuide:
    def test_its_line_for_jq_prints_a_number_a_step(self, killed: Path):
        jq = shutil.which("jq")
        if jq is None:
            pytest.skip("jq is not installed")
        (program,) = re.findall(r"^tail -f runs/short/metrics\.jsonl \| jq '(.+)'$", GUIDE.read_text(), re.MULTILINE)
        content = (killed / "metrics.jsonl").read_text()
        done = subprocess.run([jq, program], input=content, capture_output=True, text=True, timeout=60, check=True)
        printed = [json.loads(line) for line in done.stdout.splitlines()]
        assert printed == [value for _, value in numbers(killed)["reward/total"]]

    @pytest.mark.parametrize("loader", ["auto", "false"])
    def test_its_line_for_tensorboard_shows_the_run(self, killed: Path, loader: str):
        assert "tensorboard --logdir runs\n" in GUIDE.read_text()
        expected = numbers(killed)["reward/total"]
        with served(killed.parent, "--load_fast", loader) as address:
            query = urlencode({"run": "run/tensorboard", "tag": "reward/total"})
            shown = waited_for(f"{address}data/plugin/scalars/scalars?{query}", len(expected))
        assert [(step, value) for _, step, value in shown] == [(s, pytest.approx(v, rel=1e-6)) for s, v in expected]


@contextmanager
def served(folder: Path, *words: str) -> Generator[str]:
    """TensorBoard on loopback, at a port that the system chooses."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host", "127.0.0.1", "--port", "0"]
    said = folder / f"tensorboard-{len(list(folder.glob('tensorboard-*')))}.txt"
    with said.open("w") as stream, subprocess.Popen([*command, *words], stdout=stream, stderr=stream) as process:
        try:
            end = time.monotonic() + 120
            while (found := re.search(r"http://127\.0\.0\.1:\d+/", said.read_text())) is None:
                assert process.poll() is None and time.monotonic() < end, said.read_text()
                time.sleep(0.1)
            yield found[0]
        finally:
            process.terminate()


def waited_for(address: str, least: int) -> list[tuple[float, int, float]]:
    """It reads the files after it began to serve."""
    end = time.monotonic() + 120
    found: list[tuple[float, int, float]] = []
    while len(found) < least and time.monotonic() < end:
        try:
            with urlopen(address, timeout=30) as answer:  # noqa: S310 - our own, on loopback
                found = json.loads(answer.read())
        except OSError:  # It knows no such run yet.
            time.sleep(0.1)
    return found
