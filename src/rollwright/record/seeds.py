"""Digests and seeds: everything random in a run comes from these (contracts, section 5)."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from rollwright.record.errors import RecordError

__all__ = [
    "canonical_json",
    "digest",
    "episode_seed",
    "evaluation_episode_seed",
    "evaluation_reset_seed",
    "reset_seed",
    "seed_of",
]

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def canonical_json(value: Json) -> str:
    """JSON with sorted keys, no spaces, UTF-8 text kept; equal values give equal text.

    Raises:
        RecordError: for a number that is not finite, which JSON cannot say.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(
            f"no canonical JSON for {value!r}: {error}. Allowed are text, finite numbers, lists, maps."
        ) from error


def digest(value: Json) -> str:
    """sha256 of the canonical JSON, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def seed_of(*parts: Json) -> int:
    """H of the contracts: blake2b of the canonical JSON list, 8 bytes, big-endian, shifted right by 1 (a BIGINT)."""
    raw = hashlib.blake2b(canonical_json(list(parts)).encode(), digest_size=8).digest()
    return int.from_bytes(raw, "big") >> 1


def reset_seed(run_seed: int, purpose: str, group_id: int) -> int:
    """The seed given to `Environment.open`; equal in a group."""
    return seed_of(run_seed, "reset", purpose, group_id)


def episode_seed(run_seed: int, purpose: str, group_id: int, slot: int) -> int:
    """The seed of the draws; the same for every attempt in a slot."""
    return seed_of(run_seed, purpose, group_id, slot)


def evaluation_reset_seed(protocol_sha256: str, task_id: str) -> int:
    """The reset seed in an evaluation: of the protocol, not of the run, so that comparisons are paired."""
    return seed_of(protocol_sha256, "reset", task_id)


def evaluation_episode_seed(protocol_sha256: str, task_id: str, sample: int) -> int:
    """The seed of the draws in an evaluation."""
    return seed_of(protocol_sha256, task_id, sample)
