"""Jobs for a shell: files lie there at the beginning, one tool runs commands, the files at the end are what counts."""

from rollwright.environments.call_rules import ToolLimits
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn
from rollwright.environments.repository import called, collect_tree, shell
from rollwright.environments.sandbox_tools import sandbox_tool
from rollwright.environments.sandboxed import Furnishing, SandboxEnvironment
from rollwright.record import Task
from rollwright.sandboxes import Sandbox, Sandboxes
from rollwright.tasks import shell_job_of

__all__ = ["job_turns", "lay_files", "terminal_environment"]

_REVISION = "terminal-1"


async def lay_files(sandbox: Sandbox, task: Task) -> None:
    """Write the files that a job begins with: every episode begins from these alone."""
    for path, text in shell_job_of(task).files.items():
        await sandbox.write(path, text.encode())


def terminal_environment(
    sandboxes: Sandboxes,
    *,
    limits: ToolLimits,
    system_prompt: str = "",
    demonstrate: DemonstrateFn | None = None,
) -> SandboxEnvironment:
    """Episodes at a shell.

    Args:
        sandboxes: the pool; closed by whoever made it.
        limits: of an episode.
        system_prompt: before the task's messages.
        demonstrate: for a warm start.
    """
    return SandboxEnvironment(
        name="terminal",
        tools=[sandbox_tool(shell)],
        sandboxes=sandboxes,
        limits=limits,
        furnishing=Furnishing(revision=_REVISION, lay=lay_files, collect=collect_tree),
        system_prompt=system_prompt,
        demonstrate=demonstrate,
    )


def job_turns(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """A `DemonstrateFn`: one command that does the job, and an end."""
    return (called("shell", command=shell_job_of(task).command), DemonstratedTurn(text="Done."))
