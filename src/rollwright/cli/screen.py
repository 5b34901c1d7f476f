"""What a person sees of a run: one live line a step on a terminal, plain lines when piped, a table at the end."""

import json
import sys
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rollwright.runtime.observers import EvaluationReport, RunStarted, StageStarted, StepReport

__all__ = ["JsonScreen", "PersonScreen", "Screen", "interval", "print_json"]


def print_json(record: object, stream: TextIO | None = None) -> None:
    """One object, one line."""
    out = stream or sys.stdout
    out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
    out.flush()


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """A value with its interval, as a person reads it."""
    if value is None:
        return "undefined"
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


class JsonScreen:
    """One JSON object a line, for machines."""

    def run_started(self, report: RunStarted) -> None:
        """The run begins or goes on."""
        print_json(
            {
                "event": "run",
                "run": report.run_dir,
                "run_id": report.run_id,
                "stages": list(report.stages),
                "total_steps": report.total_steps,
                "resumed_step": report.resumed_step,
                "parameters": report.num_parameters,
            }
        )

    def stage_started(self, report: StageStarted) -> None:
        """A stage begins."""
        print_json({"event": "stage", "stage": report.stage, "kind": report.kind, "steps": report.num_steps})

    def step_finished(self, report: StepReport) -> None:
        """A step was committed."""
        print_json(
            {
                "event": "step",
                "stage": report.stage,
                "step": report.step,
                "reward": report.reward,
                "success": report.success,
                "episodes": report.num_episodes,
                "action_tokens": report.num_action_tokens,
                "loss": report.loss,
                "grad_norm": report.grad_norm,
                "entropy": report.entropy,
                "lag": report.lag,
                "mismatch": report.mismatch,
                "tokens_per_s": round(report.tokens_per_s, 1),
                "seconds": round(report.seconds, 4),
                "collect_s": round(report.collect_s, 4),
                "learn_s": round(report.learn_s, 4),
                "save_s": round(report.save_s, 4),
                "left_s": None if report.left_s is None else round(report.left_s, 1),
                "skipped": report.skipped,
                "ledger": dict(report.ledger),
            }
        )

    def evaluated(self, report: EvaluationReport) -> None:
        """An evaluation was committed."""
        print_json(
            {
                "event": "evaluation",
                "stage": report.stage,
                "step": report.step,
                "protocol": report.protocol,
                "success": report.success,
                "low": report.low,
                "high": report.high,
                "tasks": report.num_tasks,
                "samples": report.num_samples,
                "seconds": round(report.seconds, 3),
            }
        )

    def warned(self, sentence: str) -> None:
        """Something a person should know."""
        print_json({"event": "warning", "text": sentence})

    def close(self) -> None:
        """Nothing is held."""


class PersonScreen:
    """Lines for a person: rewritten in place on a terminal, one after the other when piped."""

    def __init__(self, console: Console) -> None:
        """Write to `console`; a terminal gets the live line."""
        self._console = console
        self._live: Live | None = None
        self._held_out: str = "held-out —"

    def run_started(self, report: RunStarted) -> None:
        """The run begins or goes on."""
        what = "goes on after step " + str(report.resumed_step) if report.resumed_step is not None else "begins"
        self._console.print(
            f"run [bold]{report.run_dir}[/bold] {what}: {report.num_parameters:,} parameters, "
            f"{report.total_steps} steps in stages {', '.join(report.stages)}"
        )

    def stage_started(self, report: StageStarted) -> None:
        """A stage begins."""
        self._line(f"stage {report.stage} ({report.kind}): {report.num_steps} steps")

    def step_finished(self, report: StepReport) -> None:
        """A step was committed."""
        parts = [f"{report.stage} {report.stage_step}/{report.stage_steps}"]
        parts.append(f"loss {report.loss:.3f}" if report.reward is None else f"reward {report.reward:.3f}")
        parts.append(self._held_out)
        if report.entropy is not None:
            parts.append(f"entropy {report.entropy:.2f}")
        if report.reward is not None:
            parts.append(f"lag {report.lag}")
        if report.mismatch is not None:
            parts.append(f"mismatch {report.mismatch:.1e}")
        parts.append(f"{report.tokens_per_s:,.0f} tok/s")
        if report.left_s is not None:
            parts.append(f"{_duration(report.left_s)} left")
        if report.skipped:
            parts.append(f"skipped: {report.skipped}")
        text = "  ".join(parts)
        if not self._console.is_terminal:
            self._console.print(text, highlight=False, soft_wrap=True)
            return
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"))

    def evaluated(self, report: EvaluationReport) -> None:
        """An evaluation was committed."""
        self._held_out = f"held-out {report.success:.3f}"
        self._line(
            f"step {report.step}: held-out success {interval(report.success, report.low, report.high)} on "
            f"{report.num_tasks} tasks × {report.num_samples}"
        )

    def warned(self, sentence: str) -> None:
        """Something a person should know."""
        self._line(f"note: {sentence}")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def table(self, table: Table) -> None:
        """Show a finished table."""
        self.close()
        self._console.print(table)

    def say(self, text: str) -> None:
        """A line of text."""
        self._line(text)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


Screen = JsonScreen | PersonScreen


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return f"{minutes}:{rest:02d}"
