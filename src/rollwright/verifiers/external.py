"""A checker from outside decides: a proof assistant, a simulator, a service. It accepts, rejects, or has failed.

Three answers that must never be mixed up: what was rejected scores 0, what could not be checked has no score. A check
that runs out of time is the submission's doing where the checker still decides a probe in time, and the checker's else.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rollwright.record import NamedValue, Submission, Verdict, canonical_json, digest
from rollwright.tasks import Json
from rollwright.verifiers.answers import AnswerRule, final_text, read_answer
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import (
    PROGRAM_TIMEOUT,
    UNPARSABLE,
    Grade,
    bad_gold,
    gold_payload,
    graded_verdict,
    no_answer,
    ungraded_verdict,
)

__all__ = ["CallableChecker", "CheckReply", "CheckRequest", "Checker", "CheckerVerifier", "CommandChecker"]

_MAX_CHARACTERS = 200_000
_MAX_OUTPUT_BYTES = 65_536
_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """What a checker sees."""

    statement: str
    """The task's last message."""
    gold: str
    """The task's own answer: what is to be proved, a reference, or whatever the checker needs."""
    submission: str
    """What was handed in."""
    info: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReply:
    """What a checker says."""

    status: Literal["accept", "reject", "timeout", "error"]
    """`error`: the check itself failed, and nothing is known of the submission."""
    detail: str = ""
    components: Mapping[str, float] = field(default_factory=dict[str, float])


class Checker(Protocol):
    """Whatever can check a submission."""

    @property
    def revision(self) -> str:
        """Of what decides: name and version of the program behind it."""
        ...

    async def check(self, request: CheckRequest) -> CheckReply:
        """Decide. An exception is an error of the checker."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableChecker:
    """A checker from a function."""

    function: Callable[[CheckRequest], Awaitable[CheckReply]]
    revision: str

    async def check(self, request: CheckRequest) -> CheckReply:
        """Ask the function."""
        return await self.function(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandChecker:
    """A checker that is a command: one JSON object on its standard input, its exit code the answer.

    The command is trusted and runs outside of any sandbox, with no environment but a path. It must not run what it
    checks: a program that is checked in the checker's own process can give the exit code itself.
    """

    command: tuple[str, ...]
    revision: str
    accept_code: int = 0
    reject_code: int = 1
    """Any other exit code is an error."""
    wall_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse codes that cannot be told apart."""
        if not self.command or self.accept_code == self.reject_code or not self.wall_s > 0:
            raise VerifierSetupError("a checker needs a command, two different exit codes and a time above 0")

    async def check(self, request: CheckRequest) -> CheckReply:
        """Run the command, and end it with all its children at its limit."""
        asked = {"statement": request.statement, "gold": request.gold, "submission": request.submission}
        stdin = canonical_json({**asked, "info": request.info}).encode(errors="replace")
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            return CheckReply(status="error", detail=f"the command did not start: {error}")
        try:
            async with asyncio.timeout(self.wall_s):
                detail = await _exchanged(process, stdin)
        except TimeoutError:
            return CheckReply(status="timeout", detail=f"no answer within {self.wall_s:g} s")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        said = f"exit code {process.returncode}: {detail}"
        if process.returncode == self.accept_code:
            return CheckReply(status="accept", detail=said)
        return CheckReply(status="reject" if process.returncode == self.reject_code else "error", detail=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckerVerifier:
    """A `record.Verifier` around a checker."""

    rule: AnswerRule
    checker: Checker
    graded: Literal["final_text", "answer"] = "final_text"
    """`answer`: only what the answer rule finds is handed in."""
    probe: str = ""
    """A submission that the checker decides in time, whatever the task; without it a timeout is the submission's."""
    name: str = "checker"
    deadline_s: float = 600.0
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of the rules and of the checker."""
        return digest([_REVISION, self.name, self.rule.parts(), self.graded, self.probe, self.checker.revision])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each in order."""
        return [await self._verdict(submission) for submission in submissions]

    async def _verdict(self, submission: Submission) -> Verdict:
        try:
            request = self._request(submission)
            grade = request if isinstance(request, Grade) else await self._grade(request)
        except GoldError as error:
            return bad_gold(submission, self.name, self.revision, error)
        if isinstance(grade, CheckReply):
            return ungraded_verdict(
                submission,
                self.name,
                self.revision,
                "timeout" if grade.status == "timeout" else "infrastructure",
                grade.detail[:2000],
            )
        return graded_verdict(submission, self.name, self.revision, grade)

    def _request(self, submission: Submission) -> CheckRequest | Grade:
        payload = gold_payload(submission)
        if self.graded == "answer":
            text = read_answer(submission, self.rule).answer or ""
        else:
            text = final_text(submission, self.rule).text
        if not text.strip():
            return no_answer(0)
        if len(text) > _MAX_CHARACTERS:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=f"{len(text)} characters")
        return CheckRequest(
            statement=payload.messages[-1].text, gold=payload.answer, submission=text, info=payload.info
        )

    async def _grade(self, request: CheckRequest) -> Grade | CheckReply:
        """A grade, or the reply that is none."""
        reply = await self._checked(request)
        if reply.status == "timeout" and self.probe:
            probed = await self._checked(
                CheckRequest(statement=request.statement, gold=request.gold, submission=self.probe, info=request.info)
            )
            if probed.status in ("timeout", "error"):
                return reply
        components = tuple(NamedValue(name=name, value=value) for name, value in reply.components.items())
        match reply.status:
            case "accept":
                return Grade(value=1.0, evidence=f"accepted: {reply.detail}"[:2000], components=components)
            case "reject":
                return Grade(value=0.0, evidence=f"rejected: {reply.detail}"[:2000], components=components)
            case "timeout":
                return Grade(value=0.0, finding=PROGRAM_TIMEOUT, evidence=reply.detail[:2000])
            case "error":
                return reply

    async def _checked(self, request: CheckRequest) -> CheckReply:
        try:
            return await self.checker.check(request)
        except Exception as error:  # noqa: BLE001 - whatever a checker raises is its own failure
            return CheckReply(status="error", detail=f"the checker failed: {type(error).__name__}: {error}")


async def _exchanged(process: asyncio.subprocess.Process, stdin: bytes) -> str:
    """Give the request, and wait for the end; the beginning of what stands on standard error is the detail."""
    assert process.stdin is not None and process.stderr is not None
    with suppress(ConnectionError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()
    kept = b""
    while part := await process.stderr.read(8192):
        kept = (kept + part)[:_MAX_OUTPUT_BYTES]
    await process.wait()
    return kept.decode(errors="replace")[:1000]
