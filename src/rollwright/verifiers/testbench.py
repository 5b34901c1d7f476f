"""A testbench from an interface: a design is right where it answers as the reference does, vector by vector.

The rules make the vectors, a simulator runs design and reference, and the outputs are compared here. What a design
prints is never read: a design can print that it passed. The simulator is any program behind a small interface; there
is none in this package.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.tasks import Json, Payload
from rollwright.verifiers.answers import AnswerRule, final_text
from rollwright.verifiers.code_text import final_code
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
    wrote,
)

__all__ = [
    "DesignError",
    "Interface",
    "Port",
    "Simulator",
    "SimulatorError",
    "TestbenchVerifier",
    "stimuli",
]

Vector = Mapping[str, int]
_MAX_WIDTH = 1024
_MAX_EXHAUSTIVE_BITS = 10
_REVISION = 1


class DesignError(Exception):
    """A design that does not compile, or that does not end: its author's doing."""

    def __init__(self, message: str, *, kind: Literal["invalid", "timeout"] = "invalid") -> None:
        super().__init__(message)
        self.kind = kind


class SimulatorError(Exception):
    """The simulator failed by no doing of the design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A signal of so many bits."""

    name: str
    width: int = 1

    def __post_init__(self) -> None:
        """Refuse what no simulator could drive."""
        if not self.name.isidentifier() or not 1 <= self.width <= _MAX_WIDTH:
            raise VerifierSetupError(
                f"port {self.name!r} of width {self.width}: give a name, and 1 to {_MAX_WIDTH} bits"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What a design takes and gives."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class Simulator(Protocol):
    """Runs a design over vectors of inputs, in order: a clocked design gets one vector a cycle."""

    @property
    def revision(self) -> str:
        """Of the program behind it."""
        ...

    async def run(self, design: str, interface: Interface, vectors: Sequence[Vector]) -> Sequence[Vector]:
        """The outputs for each vector, in the same order.

        Raises:
            DesignError: where the design is at fault.
            SimulatorError: where the simulator is.
        """
        ...


def stimuli(interface: Interface, *, num_random: int, seed: int) -> tuple[Vector, ...]:
    """The vectors of a testbench, by rule.

    All combinations where the inputs have at most ten bits together; else all zeros, all ones, each bit alone, each
    bit missing, the alternating patterns, and random vectors.

    Args:
        interface: of the design.
        num_random: how many random ones follow the rules.
        seed: of those.
    """
    width = sum(port.width for port in interface.inputs)
    if width <= _MAX_EXHAUSTIVE_BITS:
        return tuple(_vector(interface, word) for word in range(2**width))
    ones = 2**width - 1
    alternating = sum(1 << place for place in range(0, width, 2))
    words = [0, ones, alternating, ones ^ alternating]
    words += [1 << place for place in range(width)]
    words += [ones ^ (1 << place) for place in range(width)]
    draws = random.Random(seed)  # noqa: S311 - vectors of a test, no secret
    words += [draws.getrandbits(width) for _ in range(num_random)]
    return tuple(_vector(interface, word) for word in dict.fromkeys(words))


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbenchVerifier:
    """A `record.Verifier`: the design in the final text against the reference in the task's answer."""

    __test__ = False

    rule: AnswerRule
    simulator: Simulator
    language: str = "verilog"
    """Of the fenced block that holds the design."""
    num_random: int = 200
    seed: int = 0
    name: str = "testbench"
    deadline_s: float = 600.0
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of the rules that make the vectors and of the simulator."""
        rules = [self.rule.parts(), self.language, self.num_random, self.seed]
        return digest([_REVISION, self.name, rules, self.simulator.revision])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each in order."""
        return [await self._verdict(submission) for submission in submissions]

    async def _verdict(self, submission: Submission) -> Verdict:
        try:
            grade = await self._grade(submission)
        except GoldError as error:
            return bad_gold(submission, self.name, self.revision, error)
        except SimulatorError as error:
            return ungraded_verdict(
                submission, self.name, self.revision, "infrastructure", f"the simulator failed: {error}"
            )
        return graded_verdict(submission, self.name, self.revision, grade)

    async def _grade(self, submission: Submission) -> Grade:
        payload = gold_payload(submission)
        interface = _interface(payload)
        design = final_code(final_text(submission, self.rule).text, self.language)
        if design is None:
            return no_answer(0)
        vectors = stimuli(interface, num_random=self.num_random, seed=self.seed)
        try:
            wanted = await self.simulator.run(payload.answer, interface, vectors)
        except DesignError as error:
            raise GoldError(f"the reference does not simulate: {error}") from error
        try:
            given = await self.simulator.run(design, interface, vectors)
        except DesignError as error:
            finding = PROGRAM_TIMEOUT if error.kind == "timeout" else UNPARSABLE
            return Grade(value=0.0, finding=finding, evidence=f"the design does not simulate: {error}"[:1000])
        if len(wanted) != len(vectors) or len(given) != len(vectors):
            raise SimulatorError(f"{len(wanted)} and {len(given)} answers to {len(vectors)} vectors")
        wrong = [place for place in range(len(vectors)) if not _agree(interface, given[place], wanted[place])]
        evidence = f"{len(vectors) - len(wrong)} of {len(vectors)} vectors agree"
        if wrong:
            evidence += f"; at {dict(vectors[wrong[0]])} it gives {dict(given[wrong[0]])}"
        components = (
            NamedValue(name="vectors", value=float(len(vectors))),
            NamedValue(name="agree", value=float(len(vectors) - len(wrong))),
        )
        return Grade(value=float(not wrong), evidence=evidence[:1000], components=components, canonical=wrote(design))


def _agree(interface: Interface, given: Vector, wanted: Vector) -> bool:
    """Every output is there and equal, modulo its width."""
    return all(
        port.name in given and (given[port.name] - wanted[port.name]) % 2**port.width == 0 for port in interface.outputs
    )


def _vector(interface: Interface, word: int) -> Vector:
    """Cut a word into the inputs, the first in its lowest bits."""
    found: dict[str, int] = {}
    for port in interface.inputs:
        found[port.name] = word & (2**port.width - 1)
        word >>= port.width
    return found


def _interface(payload: Payload) -> Interface:
    """The task's interface: `info.inputs` and `info.outputs`, each a map from name to width."""
    return Interface(inputs=_ports(payload.info.get("inputs")), outputs=_ports(payload.info.get("outputs")))


def _ports(given: Json) -> tuple[Port, ...]:
    if not isinstance(given, Mapping) or not given or not all(type(width) is int for width in given.values()):
        raise GoldError("info.inputs and info.outputs must be maps from a port's name to its width in bits")
    try:
        return tuple(Port(name=name, width=cast("int", width)) for name, width in given.items())
    except VerifierSetupError as error:
        raise GoldError(str(error)) from error
