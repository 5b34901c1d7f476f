"""Per-token streams of a batch, filled segment by segment from the record; no loop over tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.batches.errors import BatchError
from rollwright.batches.layout import Support
from rollwright.batches.rows import Place
from rollwright.batches.rules import SegmentScores
from rollwright.record import ScoredTrajectory, Segment, is_eligible

__all__ = ["Streams", "refuse_unscorable", "routed_experts_of", "score_streams", "streams_of", "support_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Streams:
    """Arrays of all T packed tokens; meanings as in `StepBatch`."""

    token_ids: NDArray[np.int32]
    segment_ids: NDArray[np.int32]
    acts: NDArray[np.bool_]
    behavior: NDArray[np.float32]
    policy_versions: NDArray[np.int32]
    temperature: NDArray[np.float32]
    turn_index: NDArray[np.int64]


def streams_of(
    places: Sequence[Place], row_offsets: NDArray[np.int64], eligible: frozenset[tuple[str, str | None]]
) -> Streams:
    """Lay the tokens of all rows end to end.

    Args:
        places: every segment of every row, in stream order.
        row_offsets: (R + 1,)
        eligible: (origin, policy) pairs that are trained.

    Returns:
        The streams; a row's first token never acts, since nothing predicts it.
    """
    lengths = np.asarray([place.stop - place.start for place in places], np.int64)
    segments = [place.segment for place in places]
    acts = np.repeat(np.asarray([is_eligible(s, eligible) for s in segments], np.bool_), lengths)
    acts[row_offsets[:-1][np.diff(row_offsets) > 0]] = False
    behavior = np.full(int(row_offsets[-1]), np.nan, np.float32)
    for place in places:
        if place.segment.behavior_logprobs is not None:
            behavior[place.start : place.stop] = place.segment.behavior_logprobs
    return Streams(
        token_ids=np.concatenate([np.zeros(0, np.int32), *(s.token_ids for s in segments)]),
        segment_ids=np.repeat(np.asarray([s.segment for s in segments], np.int32), lengths),
        acts=acts,
        behavior=behavior,
        policy_versions=np.repeat(np.asarray([_version(s) for s in segments], np.int32), lengths),
        temperature=np.repeat(np.asarray([_temperature(s) for s in segments], np.float32), lengths),
        turn_index=np.repeat(np.asarray([s.turn for s in segments], np.int64), lengths),
    )


def refuse_unscorable(member: ScoredTrajectory, segment: Segment, support: str) -> None:
    """Raise where a learner cannot score an eligible segment under the distribution that it was drawn from.

    Args:
        member: whose segment it is, for the message.
        segment: an eligible one.
        support: `refused` or `replayed`: whether a cut distribution may be trained on.
    """
    sampling = segment.sampling
    if sampling is None or not segment.num_tokens:
        return
    where = f"{member.trajectory_id}, segment {segment.segment},"
    if sampling.temperature <= 0:
        raise BatchError(f"{where} was sampled greedily; training needs a temperature above 0.")
    if sampling.processors:
        raise BatchError(
            f"{where} was sampled through {', '.join(sampling.processors)}, whose distribution the learner cannot "
            "repeat; train without logit processors."
        )
    if sampling.is_truncated and support == "refused":
        raise BatchError(
            f"{where} was sampled with top_p={sampling.top_p}, top_k={sampling.top_k}, min_p={sampling.min_p}; the "
            "learner does not renormalise over the support. Train with top_p=1, top_k=0, min_p=0; evaluation may cut."
        )
    if sampling.is_truncated and not {"support_counts", "support_ids"} <= set(segment.tensors):
        raise BatchError(
            f"{where} was sampled from a cut distribution and has no support_counts and support_ids; ask the engine "
            "for them (wanted_tensors)."
        )


def support_of(places: Sequence[Place], num_tokens: int) -> Support | None:
    """What each token was drawn among, from the segments' `support_counts` and `support_ids`; None: no segment cut."""
    counts = np.zeros(num_tokens, np.int64)
    chosen: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    for place in places:
        tensors = place.segment.tensors
        if "support_counts" not in tensors:
            continue
        here = np.asarray(tensors["support_counts"], np.int64)
        ids = np.asarray(tensors["support_ids"], np.int32)
        if len(here) != place.segment.num_tokens or int(here.sum()) != len(ids):
            raise BatchError(
                f"segment {place.segment.segment} of {place.segment.num_tokens} tokens has {len(here)} support_counts "
                f"of sum {int(here.sum())} for {len(ids)} support_ids; it needs a count a token, and ids for their sum."
            )
        counts[place.start : place.stop] = here
        chosen.append(ids)
    if len(chosen) == 1:
        return None
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return Support(offsets=offsets, token_ids=np.concatenate(chosen))


def routed_experts_of(places: Sequence[Place], num_tokens: int) -> NDArray[np.int32] | None:
    """(T, layers, k) from the segments' `routed_experts`, -1 where an engine recorded none; None: nowhere recorded."""
    routed: NDArray[np.int32] | None = None
    for place in places:
        if "routed_experts" not in place.segment.tensors:
            continue
        here = np.asarray(place.segment.tensors["routed_experts"], np.int32)
        if routed is None:
            routed = np.full((num_tokens, *here.shape[1:]), -1, np.int32)
        if here.shape != (place.segment.num_tokens, *routed.shape[1:]):
            raise BatchError(
                f"segment {place.segment.segment} has routed_experts of shape {here.shape}; it needs "
                f"{(place.segment.num_tokens, *routed.shape[1:])}."
            )
        routed[place.start : place.stop] = here
    return routed


def score_streams(
    members: Sequence[ScoredTrajectory], places: Sequence[Place], num_tokens: int, scores: Sequence[SegmentScores]
) -> Mapping[str, NDArray[np.float32]]:
    """(T,) a stream for each name among `scores` (bootstrap excepted), NaN where a segment has none."""
    given = {(s.trajectory_id, s.segment, s.name): s.values for s in scores if s.name != "bootstrap"}
    streams = {name: np.full(num_tokens, np.nan, np.float32) for name in sorted({key[2] for key in given})}
    used: set[tuple[str, int, str]] = set()
    for place in places:
        for name, stream in streams.items():
            key = (members[place.member].trajectory_id, place.segment.segment, name)
            if key not in given:
                continue
            if len(given[key]) != place.segment.num_tokens:
                raise BatchError(
                    f"{key[0]}, segment {key[1]} of {place.segment.num_tokens} tokens has {len(given[key])} scores "
                    f"`{name}`; it needs one a token."
                )
            stream[place.start : place.stop] = given[key]
            used.add(key)
    if lost := sorted(set(given) - used):
        raise BatchError(f"scores were given for segments that are not in the batch: {lost[:3]}.")
    return streams


def _version(segment: Segment) -> int:
    return -1 if segment.policy_version is None else segment.policy_version


def _temperature(segment: Segment) -> float:
    return 1.0 if segment.sampling is None or segment.sampling.temperature <= 0 else segment.sampling.temperature
