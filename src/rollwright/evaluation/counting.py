"""How far an evaluation has come, told to whoever waits for it."""

from collections.abc import Awaitable, Callable

from rollwright.evaluation.evaluate import EvaluationAttempt
from rollwright.evaluation.protocol import EvaluationProtocol
from rollwright.record import Trajectory

__all__ = ["counted"]


def counted(
    run_episode: Callable[[EvaluationAttempt], Awaitable[Trajectory]],
    protocol: EvaluationProtocol,
    tell: Callable[[int, int], None],
) -> Callable[[EvaluationAttempt], Awaitable[Trajectory]]:
    """Tell how many samples have come to an end, of how many: none at first, then after each.

    A sample that is tried again after an accident counts once, when its first try has ended.

    Args:
        run_episode: runs one attempt.
        protocol: whose samples they are.
        tell: takes both numbers.
    """
    total = len(protocol.tasks) * protocol.samples
    ended: set[tuple[int, int]] = set()
    tell(0, total)

    async def run(attempt: EvaluationAttempt) -> Trajectory:
        trajectory = await run_episode(attempt)
        if (attempt.group_id, attempt.sample) not in ended:
            ended.add((attempt.group_id, attempt.sample))
            tell(len(ended), total)
        return trajectory

    return run
