"""What a person sees of a run: one live line a step on a terminal, plain lines when piped, a table at the end."""

from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rollwright.cli.machine import print_json
from rollwright.cli.tables import print_table
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport

__all__ = ["JsonScreen", "PersonScreen", "Screen", "interval"]


_SHOWN_SHARE = 0.005
"""Of a step; a part that was at work for less is left out of a line."""


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
                "evaluated_step": report.evaluated_step,
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
                "bottleneck": report.bottleneck,
                "anatomy": {part: round(share, 4) for part, share in report.anatomy.items()},
                "ledger": dict(report.ledger),
            }
        )

    def evaluating(self, report: EvaluationProgress) -> None:
        """An evaluation begins; how far it has come is for people."""
        if report.num_done == 0:
            print_json({"event": "evaluating", "step": report.step, "episodes": report.num_episodes})

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
    """Lines for a person: the newest step rewritten in place on a terminal, one line after the other when piped."""

    def __init__(self, console: Console) -> None:
        """Write to `console`; a terminal gets the live line."""
        self._console = console
        self._live: Live | None = None
        self._last = ""
        self._held_out = "held-out —"

    def run_started(self, report: RunStarted) -> None:
        """The run begins or goes on."""
        if report.evaluated_step is not None:
            self.say(
                f"run {report.run_dir}: the checkpoint behind step {report.evaluated_step} is evaluated, "
                f"{report.num_parameters:,} parameters; nothing is trained"
            )
            return
        what = "begins" if report.resumed_step is None else f"goes on after step {report.resumed_step}"
        self.say(
            f"run {report.run_dir} {what}: {report.num_parameters:,} parameters, {report.total_steps} steps in stages "
            f"{', '.join(report.stages)}"
        )

    def stage_started(self, report: StageStarted) -> None:
        """A stage begins; the last line of the one before stays."""
        self.close()
        self.say(f"stage {report.stage} ({report.kind}): {report.num_steps} steps")

    def step_finished(self, report: StepReport) -> None:
        """A step was committed."""
        line = _step_line(report, self._held_out)
        if not self._console.is_terminal:
            self.say(line)
            return
        self._last = line
        self._rewrite(line)

    def evaluating(self, report: EvaluationProgress) -> None:
        """An evaluation begins, or has come further: the live line says how far, a pipe only that it begins."""
        if not self._console.is_terminal:
            if report.num_done == 0:
                self.say(f"step {report.step}: evaluating, {report.num_episodes} episodes")
            return
        self._rewrite(f"step {report.step}: evaluating, {report.num_done} of {report.num_episodes} episodes")

    def evaluated(self, report: EvaluationReport) -> None:
        """An evaluation was committed."""
        self._held_out = "held-out —" if report.success is None else f"held-out {report.success:.3f}"
        if self._live is not None and self._last:
            self._rewrite(self._last)
        else:
            self.close()
        self.say(
            f"step {report.step}: held-out success {interval(report.success, report.low, report.high)} on "
            f"{report.num_tasks} tasks × {report.num_samples}"
        )

    def warned(self, sentence: str) -> None:
        """Something a person should know."""
        self.say(f"note: {sentence}")

    def close(self) -> None:
        """Leave the terminal as it was, with the last step's line on it."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            if self._last:
                self.say(self._last)
            self._last = ""

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
        """Show a finished table."""
        self.close()
        print_table(self._console, columns, rows, title=title)

    def say(self, text: str) -> None:
        """A line of text."""
        self._console.print(Text(text), soft_wrap=True)

    def _rewrite(self, line: str) -> None:
        """Put a line where the live one stands."""
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


def _step_line(report: StepReport, held_out: str) -> str:
    parts = [
        f"{report.stage} {report.stage_step}/{report.stage_steps}",
        f"loss {report.loss:.3f}" if report.reward is None else f"reward {report.reward:.3f}",
        held_out,
    ]
    if report.entropy is not None:
        parts.append(f"entropy {report.entropy:.2f}")
    if report.reward is not None:
        parts.append(f"lag {report.lag}")
    if report.mismatch is not None:
        parts.append(f"mismatch {report.mismatch:.1e}")
    parts.append(f"{report.tokens_per_s:,.0f} tok/s")
    if report.bottleneck is not None and report.reward is not None:
        parts.append(f"held by {report.bottleneck}")
    if report.left_s is not None:
        parts.append(f"{_duration(report.left_s)} left")
    if report.skipped:
        parts.append(f"skipped: {report.skipped}")
    if report.anatomy and report.reward is not None:
        shares = ", ".join(f"{part} {share:.0%}" for part, share in report.anatomy.items() if share >= _SHOWN_SHARE)
        parts.append(f"({shares})")
    return "  ".join(parts)


Screen = JsonScreen | PersonScreen


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
