"""Rewards from tests that passed: all or nothing, a share, and a repository's two lists (M115)."""

from collections.abc import Mapping, Sequence

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["all_tests_passed", "repository_reward", "share_of_tests"]


def all_tests_passed(passed: int, total: int) -> float:
    """1 where every test passed, else 0 (AceReason); a failed compilation or a timeout passes none."""
    return float(share_of_tests(passed, total) == 1.0)


def share_of_tests(passed: int, total: int) -> float:
    """Passed over all, in [0, 1] (ProRL): pays for partial work, and for tests that are easy to pass."""
    if total < 1 or not 0 <= passed <= total:
        raise ObjectiveError(
            f"{passed} of {total} tests passed; without a test there is no reward, and at most all of them pass."
        )
    return passed / total


def repository_reward(seen: Mapping[str, bool], *, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> float:
    """1 where each test that had to begin to pass and each that had to go on passing did, else 0.

    Args:
        seen: outcome of each test that was seen to run; a required test that is not among them did not pass.
        fail_to_pass: tests of the fix, at least one.
        pass_to_pass: tests of what worked before.
    """
    if not fail_to_pass:
        raise ObjectiveError("no test has to begin to pass; nothing would say that the task was solved.")
    return float(all(seen.get(test, False) for test in (*fail_to_pass, *pass_to_pass)))
