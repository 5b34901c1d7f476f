"""What is seen of a run: one live line on a terminal, plain lines in a pipe, an object a line for a machine."""

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from rollwright.cli.results import show_result
from rollwright.cli.screen import JsonScreen, PersonScreen
from rollwright.recipes.runs import TrainResult
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport
from rollwright.runtime.progress import EvaluationPoint

RUN = RunStarted(
    run_dir="runs/[odd] name",
    run_id="r1",
    stages=("warm_start", "rl"),
    total_steps=5,
    resumed_step=None,
    num_parameters=650_000,
)
WARM = StageStarted(stage="warm_start", kind="supervised", first_step=1, num_steps=1)
RL = StageStarted(stage="rl", kind="rl", first_step=2, num_steps=4)
STEP = StepReport(
    stage="rl",
    step=3,
    stage_step=2,
    stage_steps=4,
    reward=0.625,
    success=0.6,
    num_episodes=64,
    num_action_tokens=900,
    loss=0.01,
    grad_norm=0.5,
    entropy=0.42,
    lag=0,
    mismatch=2.1e-7,
    seconds=1.5,
    collect_s=1.0,
    learn_s=0.4,
    save_s=0.1,
    tokens_per_s=1234.5,
    left_s=75.0,
    skipped=None,
    bottleneck="engine",
    ledger={"trained": 64},
)
WARM_STEP = replace(
    STEP,
    stage="warm_start",
    step=1,
    stage_step=1,
    stage_steps=1,
    reward=None,
    success=None,
    loss=1.234,
    mismatch=None,
    entropy=None,
)
EVALUATED = EvaluationReport(
    step=1,
    stage="warm_start",
    protocol="held-out",
    success=0.5,
    low=0.45,
    high=0.55,
    num_tasks=200,
    num_samples=2,
    seconds=3.0,
    rows=(),
)
RESULT = TrainResult(
    run_dir="runs/a b",
    steps=5,
    seconds=12.34,
    num_episodes=320,
    num_action_tokens=4500,
    max_mismatch=3e-7,
    content_hash="ab" * 32,
    before=EvaluationPoint(step=1, success=0.5, low=0.45, high=0.55, num_tasks=200),
    after=EvaluationPoint(step=5, success=0.95, low=0.92, high=0.97, num_tasks=200),
)
LINE = (
    "rl 2/4  reward 0.625  held-out 0.500  entropy 0.42  lag 0  mismatch 2.1e-07  1,234 tok/s  held by engine  "
    "1:15 left"
)


def play(screen: PersonScreen | JsonScreen) -> None:
    screen.run_started(RUN)
    screen.stage_started(WARM)
    screen.step_finished(WARM_STEP)
    for done in range(3):
        screen.evaluating(EvaluationProgress(step=1, num_done=done, num_episodes=400))
    screen.evaluated(EVALUATED)
    screen.stage_started(RL)
    screen.step_finished(replace(STEP, step=2, stage_step=1, reward=0.5))
    screen.step_finished(STEP)
    screen.warned("the disk is nearly full")
    screen.close()


def test_a_line_ends_in_what_each_part_did_with_the_step_and_what_no_part_accounts_for():
    stream = io.StringIO()
    screen = PersonScreen(Console(file=stream, width=200))
    anatomy = {"engine": 0.5, "environment": 0.001, "learner": 0.25, "loop": 0.3, "unattributed": 0.02}
    screen.step_finished(replace(STEP, anatomy=anatomy))
    screen.close()
    assert stream.getvalue().rstrip().endswith("1:15 left  (engine 50%, learner 25%, loop 30%, unattributed 2%)")


def shown(*, is_terminal: bool) -> str:
    stream = io.StringIO()
    play(PersonScreen(Console(file=stream, force_terminal=is_terminal, width=120, color_system=None)))
    return stream.getvalue()


def test_a_pipe_gets_a_plain_line_for_everything():
    assert shown(is_terminal=False).splitlines() == [
        "run runs/[odd] name begins: 650,000 parameters, 5 steps in stages warm_start, rl",
        "stage warm_start (supervised): 1 steps",
        "warm_start 1/1  loss 1.234  held-out —  1,234 tok/s  1:15 left",
        "step 1: evaluating, 400 episodes",
        "step 1: held-out success 0.500 [0.450, 0.550] on 200 tasks × 2",
        "stage rl (rl): 4 steps",
        LINE.replace("2/4", "1/4").replace("0.625", "0.500"),
        LINE,
        "note: the disk is nearly full",
    ]


def test_a_terminal_rewrites_one_line_and_keeps_the_last_of_each_stage():
    text = shown(is_terminal=True)
    assert "\x1b[2K" in text or "\x1b[1A" in text
    left = screen_after(text)
    assert LINE in left
    assert LINE.replace("2/4", "1/4").replace("0.625", "0.500") not in left
    assert sum(line.startswith("warm_start 1/1") for line in left) == 1
    assert "note: the disk is nearly full" in left
    assert "\x1b[?25h" in text, "the cursor is back"


def test_a_terminal_shows_how_far_an_evaluation_has_come_and_the_last_step_again_when_it_is_over():
    stream = io.StringIO()
    screen = PersonScreen(Console(file=stream, force_terminal=True, width=120, color_system=None))
    for done in range(3):
        screen.evaluating(EvaluationProgress(step=0, num_done=done, num_episodes=400))
        assert screen_after(stream.getvalue())[-1] == f"step 0: evaluating, {done} of 400 episodes"
    screen.evaluated(EVALUATED)
    assert [line for line in screen_after(stream.getvalue()) if "evaluating" in line] == []
    screen.step_finished(STEP)
    screen.evaluating(EvaluationProgress(step=2, num_done=0, num_episodes=400))
    assert screen_after(stream.getvalue())[-1] == "step 2: evaluating, 0 of 400 episodes"
    screen.evaluated(EVALUATED)
    assert screen_after(stream.getvalue())[-1] == LINE
    screen.close()
    left = screen_after(stream.getvalue())
    assert left.count(LINE) == 1 and not any("evaluating" in line for line in left)


def test_a_narrow_terminal_cuts_the_line_instead_of_wrapping_it():
    stream = io.StringIO()
    screen = PersonScreen(Console(file=stream, force_terminal=True, width=40, color_system=None))
    screen.step_finished(STEP)
    assert "…" in stream.getvalue()
    assert "\n" not in stream.getvalue()
    screen.close()


def screen_after(text: str) -> list[str]:
    """What stands on a terminal after these characters: enough of one for a live line."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif re.fullmatch(r"\x1b\[\d*A", part):
            row -= int(part[2:-1] or 1)
        elif not part.startswith("\x1b") and part != "\r":
            lines[row] += part
    return [line.rstrip() for line in lines]


def test_a_machine_gets_an_object_a_line(capsys):
    play(JsonScreen())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == [
        "run",
        "stage",
        "step",
        "evaluating",
        "evaluation",
        "stage",
        "step",
        "step",
        "warning",
    ]
    assert lines[2]["reward"] is None
    assert lines[3] == {"event": "evaluating", "step": 1, "episodes": 400}
    assert lines[7] | {"reward": 0.625, "lag": 0, "mismatch": 2.1e-7, "ledger": {"trained": 64}} == lines[7]


def test_the_last_line_for_a_machine_has_before_and_after(capsys):
    show_result(RESULT, JsonScreen())
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["run"], line["steps"], line["seconds"]) == ("runs/a b", 5, 12.34)
    for name, success in (("before", 0.5), ("after", 0.95)):
        assert line[name]["success"] == success
        assert set(line[name]) >= {"success", "low", "high", "tasks"}


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_a_person_sees_what_was_learned_what_it_cost_and_what_to_try_next(is_terminal):
    stream = io.StringIO()
    show_result(RESULT, PersonScreen(Console(file=stream, force_terminal=is_terminal, width=120, color_system=None)))
    text = stream.getvalue()
    assert "before (step 1)" in text
    assert "0.950 [0.920, 0.970]" in text
    assert "cost: 12 s, 320 episodes, 4,500 action tokens" in text
    assert "agreed to 3.0e-07 nats" in text
    assert f"next: rollwright why 'runs/a b' --step {RESULT.steps}\n" in text
    assert "or: rollwright query 'runs/a b' \"SELECT trajectory_id, sum(influence) AS moved" in text


def test_a_run_that_was_not_evaluated_has_no_before_and_after(capsys):
    show_result(replace(RESULT, before=None, after=None, max_mismatch=None), JsonScreen())
    line = json.loads(capsys.readouterr().out)
    assert line["before"] is None
    assert line["max_mismatch"] is None


def test_a_run_that_goes_on_says_from_where():
    stream = io.StringIO()
    PersonScreen(Console(file=stream)).run_started(replace(RUN, resumed_step=3))
    assert "goes on after step 3" in stream.getvalue()


def test_an_evaluation_says_which_checkpoint_it_is_of_and_that_nothing_is_trained():
    stream = io.StringIO()
    PersonScreen(Console(file=stream)).run_started(replace(RUN, evaluated_step=3))
    said = stream.getvalue()
    assert "the checkpoint behind step 3 is evaluated" in said and "goes on" not in said
