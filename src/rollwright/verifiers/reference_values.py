"""What a reference program returns for given inputs, computed in a sandbox: tests for tasks that bring inputs alone."""

from collections.abc import Sequence
from dataclasses import replace

from rollwright.sandboxes import Sandboxes
from rollwright.tasks import Json, Payload
from rollwright.verifiers.call_program import PlainValueError, read_value, write_value
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.program_running import call_value
from rollwright.verifiers.program_tests import CallTest, ProgramTests

__all__ = ["with_reference_values"]

_WALL_S = 20.0
_MEMORY_BYTES = 2**29


async def with_reference_values(payload: Payload, sandboxes: Sandboxes) -> Payload:
    """The payload with a test for each of `info.inputs`: the value that the reference, its answer, returns.

    Args:
        payload: with `info.inputs`, lists of arguments, and `info.entry_point`.
        sandboxes: to run the reference in; it comes from outside as well.

    Raises:
        GoldError: where the reference raises, hangs or returns no plain value.
        SandboxError: where the sandbox failed.
    """
    inputs = payload.info.get("inputs")
    if not isinstance(inputs, Sequence) or isinstance(inputs, str) or not inputs:
        raise GoldError("info.inputs holds no inputs")
    tests: list[Json] = []
    async with sandboxes.take() as sandbox:
        for place, args in enumerate(inputs):
            if not isinstance(args, Sequence) or isinstance(args, str):
                raise GoldError(f"input {place} is no list of arguments")
            try:
                call = CallTest(args=tuple(map(read_value, args)), expected=None)
            except PlainValueError as error:
                raise GoldError(f"input {place}: {error}") from error
            value = await call_value(sandbox, _request(payload, call), payload.answer, call, place)
            if not isinstance(value, tuple):
                raise GoldError(f"the reference fails on input {place}: {value.status} {value.detail}")
            tests.append({"args": list(args), "expected": write_value(value[0])})
    return replace(payload, info={**payload.info, "tests": tests})


def _request(payload: Payload, call: CallTest) -> ProgramTests:
    return ProgramTests(
        tests=(call,),
        entry_point=payload.text("entry_point"),
        language="python",
        wall_s=_WALL_S,
        memory_bytes=_MEMORY_BYTES,
        sequences="strict",
        prelude="",
    )
