"""From a sandbox's answer to a result: every value checked, every text valid and within its bound."""

from typing import cast, get_args

from rollwright.sandboxes.connection import Answer, ConnectionEndedError
from rollwright.sandboxes.inside.frames import Header
from rollwright.sandboxes.sandbox import SandboxLimits, SandboxResult, SandboxStatus

__all__ = ["lost_result", "result_of", "text_of"]

SESSION_LOST = "the names of the session are lost, files stay"
SANDBOX_LOST = "the sandbox was ended with it: names and files are lost"


def result_of(answer: Answer, limits: SandboxLimits, wall_s: float) -> SandboxResult:
    """The result that an answer states.

    Raises:
        ConnectionEndedError: If it states none.
    """
    header = answer.header
    try:
        status, exit_code = header["status"], header["exit_code"]
        head_out, tail_out, head_err, tail_err = _sizes(header, "sizes", 4)
        num_out, num_err = _sizes(header, "totals", 2)
        spent_s, cpu_s = float(str(header["wall_s"])), float(str(header["cpu_s"]))
    except (KeyError, ValueError) as error:
        raise ConnectionEndedError(f"no result: {error!r}") from error
    if status not in get_args(SandboxStatus) or not (exit_code is None or isinstance(exit_code, int)):
        raise ConnectionEndedError(f"no result: status {status!r}, exit code {exit_code!r}")
    pieces: list[bytes] = []
    start = 0
    for size in (head_out, tail_out, head_err, tail_err):
        pieces.append(answer.blob[start : start + size])
        start += size
    stderr = text_of(pieces[2], pieces[3], num_err, limits.output_bytes)
    is_lost = header.get("lost_session") is True
    stderr += _note(cast(SandboxStatus, status), limits, wall_s, SESSION_LOST if is_lost else "")
    return SandboxResult(
        status=cast(SandboxStatus, status),
        exit_code=exit_code,
        stdout=text_of(pieces[0], pieces[1], num_out, limits.output_bytes),
        stderr=stderr,
        stdout_bytes=num_out,
        stderr_bytes=num_err,
        wall_s=spent_s,
        cpu_s=cpu_s,
    )


def lost_result(status: SandboxStatus, limits: SandboxLimits, wall_s: float, spent_s: float) -> SandboxResult:
    """The result of a call that took its sandbox with it."""
    return SandboxResult(
        status=status,
        exit_code=None,
        stdout="",
        stderr=_note(status, limits, wall_s, SANDBOX_LOST),
        stdout_bytes=0,
        stderr_bytes=0,
        wall_s=spent_s,
        cpu_s=0.0,
    )


def text_of(head: bytes, tail: bytes, total: int, most: int) -> str:
    """Valid text of at most `most` bytes, with a mark where bytes are missing."""
    if total <= len(head) + len(tail):
        text = (head + tail).decode("utf-8", "replace")
        if len(text.encode()) <= most:
            return text
        head = tail = text.encode()
    half = most // 2
    first = _trimmed(head).encode()[:half].decode("utf-8", "ignore")
    last = _trimmed(tail).encode()[-half:].decode("utf-8", "ignore")
    return f"{first}\n[cut: original size {total} bytes, head and tail kept]\n{last}"


def _trimmed(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _sizes(header: Header, name: str, count: int) -> list[int]:
    values = header[name]
    if not isinstance(values, list) or len(values) != count:  # pyright: ignore[reportUnknownArgumentType] - read JSON
        raise ValueError(f"{name} are not {count} numbers")
    numbers = [int(str(value)) for value in values]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - read JSON
    if min(numbers) < 0:
        raise ValueError(f"{name} below 0")
    return numbers


def _note(status: SandboxStatus, limits: SandboxLimits, wall_s: float, loss: str) -> str:
    """What a reader of the error stream has to know beside it."""
    match status:
        case "timeout":
            reason = f"killed at its limit of {wall_s:g} s"
        case "cpu_limit":
            reason = f"killed at its limit of {limits.cpu_s:g} s of CPU time"
        case "memory_limit":
            reason = f"out of memory: {limits.memory_bytes} bytes a process, {limits.total_memory_bytes} together"
        case "ok" | "failed":
            reason = ""
    if not reason and not loss:
        return ""
    return f"\n[{'; '.join(part for part in (reason, loss) if part)}]\n"
