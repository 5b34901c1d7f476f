"""Small jobs for a shell, judged by the files at the end."""

from rollwright.environments import DemonstratedTurn, ToolLimits, called, job_turns, terminal_environment
from rollwright.recipes.worlds.world import World
from rollwright.record import Task
from rollwright.sandboxes import Isolation, SandboxLimits, SandboxProfile, open_sandboxes
from rollwright.tasks import SplitSizes, Stratum, shell_job_of, shell_job_strata
from rollwright.verifiers import Part, end_state_verifier

__all__ = ["load"]

_SLACK_S = 2.0


def load(
    *,
    max_calls: int = 8,
    call_s: float = 10.0,
    result_characters: int = 2000,
    isolation: Isolation = "namespaces",
    num_warm: int = 2,
) -> World:
    """Small jobs for a shell, judged by the files at the end.

    Args:
        max_calls: commands in one episode.
        call_s: wall clock and CPU of one command.
        result_characters: what is shown of a result; the rest is cut out of its middle.
        isolation: of the sandbox.
        num_warm: sandboxes kept ready.
    """
    limits = SandboxLimits(wall_s=call_s, cpu_s=call_s)
    sandboxes = open_sandboxes(SandboxProfile(isolation=isolation, limits=limits), num_warm=num_warm)
    return World(
        environment=terminal_environment(
            sandboxes,
            limits=ToolLimits(calls=max_calls, result_characters=result_characters, call_timeout_s=call_s + _SLACK_S),
            demonstrate=job_turns,
        ),
        tasks=_tasks,
        parts=(Part(verifier=end_state_verifier()),),
        reference=job_turns,
        attacks={
            "says that it is done": _told,
            "leaves a tree of its own making": _forged,
            "does the job and leaves something beside it": _beside,
            "empties every file": _emptied,
        },
        sandbox_profile=sandboxes.profile_id,
        max_open=sandboxes.max_open,
        close=sandboxes.close,
    )


def _tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
    return shell_job_strata(sizes, seed=seed)


def _told(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (called("shell", command="ls"), DemonstratedTurn(text="Done."))


def _forged(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (called("shell", command="echo '{\"files\": {}}' > tree.json"), DemonstratedTurn(text="Done."))


def _beside(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    command = f"{shell_job_of(task).command}; echo 1 > answer-1.txt"
    return (called("shell", command=command), DemonstratedTurn(text="Done."))


def _emptied(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    command = 'for f in * */*; do [ -f "$f" ] && : > "$f"; done; : > count.txt; : > sorted.txt; : > total.txt'
    return (called("shell", command=command), DemonstratedTurn(text="Done."))
