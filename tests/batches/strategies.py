"""Random forests of segments, groups of episodes and denominators."""

from hypothesis import strategies as st

from rollwright.algorithms.denominators.plain import (
    FixedLength,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
)
from rollwright.record import TerminalReason
from tests.batches.episodes import Forest, episode, group

DENOMINATORS = (
    TokenMean(), ResponseMean(), FixedLength(length=7), SequenceSum(), PromptMean(), PromptMean(within="token"),
)  # fmt: skip
denominators = st.sampled_from(DENOMINATORS)
origins = st.sampled_from(["policy", "policy", "tool", "environment", "template", "replayed"])
ON_ZERO = st.just(0)
endings = st.sampled_from([TerminalReason.MODEL_END, TerminalReason.TOKEN_LIMIT])


@st.composite
def forests(draw, versions=ON_ZERO):
    """Contexts, forks, empty turns, and segments of another policy."""
    forest = Forest()
    forest.add("task", draw(st.integers(1, 3)))
    for number in range(1, draw(st.integers(2, 6))):
        after = draw(st.sampled_from([number - 1, number - 1, draw(st.integers(0, number - 1)), None]))
        forest.add(
            draw(origins), draw(st.integers(0, 4)), after=after, version=draw(versions), turn=number,
            policy=draw(st.sampled_from(["policy", "policy", "solver"])),
        )  # fmt: skip
    return tuple(forest.segments)


@st.composite
def steps(draw, versions=ON_ZERO):
    """Groups of one step; some members unscored or truncated."""
    groups = []
    for number in range(draw(st.integers(1, 3))):
        members = [
            episode(
                draw(forests(versions)), group=number, slot=slot, reason=draw(endings),
                outcome=draw(st.sampled_from([0.0, 1.0, 0.5, "grader_error"])),
                source=draw(st.sampled_from(["arithmetic", "sums"])),
            )
            for slot in range(draw(st.integers(1, 3)))
        ]  # fmt: skip
        groups.append(group(*members))
    return groups
