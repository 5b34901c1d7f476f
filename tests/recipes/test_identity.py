"""A run that goes on under other conditions says so, once a person and once in its events."""

from dataclasses import replace
from pathlib import Path

from rollwright.evidence import RunFolder
from rollwright.recipes.build.identity import compare_conditions
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport
from tests.evidence.runs import manifest


class Listener:
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def run_started(self, report: RunStarted) -> None: ...

    def stage_started(self, report: StageStarted) -> None: ...

    def step_finished(self, report: StepReport) -> None: ...

    def evaluating(self, report: EvaluationProgress) -> None: ...

    def evaluated(self, report: EvaluationReport) -> None: ...

    def warned(self, sentence: str) -> None:
        self.sentences.append(sentence)


def test_another_machine_ends_the_promise_and_the_event_says_what_changed(tmp_path: Path):
    began = manifest()
    now = replace(began, machine=replace(began.machine, cpu_model="another one"))
    listener = Listener()
    with RunFolder.create(tmp_path / "run", began, "") as folder:
        compare_conditions(folder, now, listener)
        (event,) = folder.events()
    assert event.kind == "promise_ended" and "machine.cpu_model" in event.text
    assert len(listener.sentences) == 1 and "another one" in listener.sentences[0]


def test_the_same_conditions_say_nothing(tmp_path: Path):
    listener = Listener()
    with RunFolder.create(tmp_path / "run", manifest(), "") as folder:
        compare_conditions(folder, manifest(), listener)
        assert folder.events() == () and listener.sentences == []
