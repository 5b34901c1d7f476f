"""Tasks from the generators of `reasoning-gym`."""

import importlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Protocol, cast

from rollwright.record import Message, canonical_json, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import GENERATED, HELD_OUT_SHARE, SplitSizes, TaskSource, fill_splits, license_of

__all__ = ["GymEntry", "GymGenerator", "gym_entries", "gym_source", "gym_version"]

_BLOCK = 1024
_BUILDER = 1
"""Of how this module turns an entry into a task; part of the revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GymGenerator:
    """A generator by name, with its parameters and a seed."""

    name: str
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GymEntry:
    """One drawn problem."""

    question: str
    answer: str
    metadata: Mapping[str, Json]
    """What of the generator's metadata JSON can say, without place and difficulty settings."""


class _Dataset(Protocol):
    def __getitem__(self, index: int) -> Mapping[str, object]: ...


class _Gym(Protocol):
    def create_dataset(self, name: str, **parameters: object) -> _Dataset: ...


def gym_version() -> str:
    """The installed version of reasoning-gym, as packaged (its `__version__` lags behind)."""
    return version("reasoning-gym")


def gym_entries(generator: GymGenerator) -> Iterator[GymEntry]:
    """Problems without end, block by block; equal generators give equal sequences.

    Raises:
        TaskError: for an unknown name or parameters that the generator refuses.
    """
    gym = cast("_Gym", importlib.import_module("reasoning_gym"))  # Here, not above: it takes over a second to import.
    for block in itertools.count():
        seed = seed_of(generator.seed, "reasoning_gym", generator.name, block) % 2**31
        try:
            drawn = gym.create_dataset(generator.name, seed=seed, size=_BLOCK, **generator.parameters)
        except (TypeError, ValueError, AssertionError) as error:
            raise TaskError(
                f"reasoning-gym refuses generator {generator.name!r} with {dict(generator.parameters)}: {error}. "
                "`python -c 'import reasoning_gym.factory as f; print(*f.DATASETS)'` lists the names."
            ) from error
        for index in range(_BLOCK):
            entry = drawn[index]
            yield GymEntry(
                question=str(entry["question"]), answer=str(entry["answer"]), metadata=_sayable(entry["metadata"])
            )


def gym_source(
    generator: GymGenerator, sizes: SplitSizes, *, name: str | None = None, share: float = HELD_OUT_SHARE
) -> TaskSource:
    """A source with the generator's own question text; entries without an answer are passed over.

    Args:
        generator: what to draw from.
        sizes: distinct tasks wanted in each split.
        name: of the source; the generator's own by default.
        share: of the questions that are held out.
    """
    revision = f"reasoning-gym-{gym_version()}:{_digest_of(generator)}"
    payloads = (
        Payload(
            messages=(Message(role="user", text=entry.question.strip()),),
            answer=entry.answer.strip(),
            info={"generator": generator.name, "metadata": entry.metadata},
        )
        for entry in gym_entries(generator)
        if entry.answer.strip() and entry.question.strip()
    )
    source = fill_splits(payloads, sizes, name=name or generator.name, revision=revision, share=share)
    return replace(source, provenance=replace(GENERATED, license=license_of("reasoning-gym")))


def _digest_of(generator: GymGenerator) -> str:
    return digest([_BUILDER, generator.name, generator.parameters, generator.seed])[:16]


def _sayable(metadata: object) -> Mapping[str, Json]:
    """Leave out what JSON cannot say and what tells two drawings of one problem apart."""
    kept: dict[str, Json] = {}
    if isinstance(metadata, Mapping):
        for key, value in cast("Mapping[str, Json]", metadata).items():
            if key not in ("source_dataset", "source_index", "difficulty"):
                try:
                    canonical_json(value)
                except ValueError:
                    continue
                kept[key] = value
    return kept
