"""Token ids go from engine to engine through a chat and stay what they are; what was encoded again is no record."""

from dataclasses import replace

import pytest

from rollwright.record import RecordError, StepResult, TerminalReason, ids
from tests.rollout.fakes import FakeEngine, FakeEnvironment, drive, observe, whole


def letter_by_letter(renderer, text):
    """Ids that say the text and that no tokenizer would give for it."""
    return ids([*(int(renderer.encode_turn(letter)[0]) for letter in text), renderer.turn_end_id])


@pytest.mark.row("S243")
def test_generated_ids_survive_a_chat_unchanged_and_what_another_tokenization_gives_is_refused(renderer):
    turns = [
        letter_by_letter(renderer, text) for text in ("The answer is 42.", "The answer is 20.", "It is the answer.")
    ]
    engine = FakeEngine([whole(turn) for turn in turns])
    steps = [observe("What is it?"), observe("Sure?"), observe("So?"), StepResult(observations=())]
    done = drive(renderer, FakeEnvironment(steps), engine)
    assert done.terminal_reason is TerminalReason.MODEL_END, done.failure_cause
    generated = [s for s in done.segments if s.origin == "policy"]
    assert [s.token_ids.tolist() for s in generated] == [turn.tolist() for turn in turns]
    # What the engine is sent next begins with what it was sent before and exactly what it drew.
    for before, turn, after in zip(engine.requests, turns, engine.requests[1:], strict=False):
        start = [*before.token_ids.tolist(), *turn.tolist()]
        assert after.token_ids.tolist()[: len(start)] == start
    for segment in generated:
        again = renderer.encode_turn(renderer.decode(segment.token_ids[:-1]))
        assert again.tolist() != segment.token_ids.tolist()
        assert renderer.decode(again) == renderer.decode(segment.token_ids)
        with pytest.raises(RecordError, match="behavior_logprobs"):
            replace(segment, token_ids=again)
        assert segment.behavior_logprobs is not None
        # Neither does it fit where scores are made up for it: all that follows would stand elsewhere.
        scored = replace(segment, token_ids=again, behavior_logprobs=segment.behavior_logprobs[: len(again)])
        segments = [scored if s is segment else s for s in done.segments]
        if segment is not generated[-1]:
            with pytest.raises(RecordError, match="starts at"):
                replace(done, segments=tuple(segments))
