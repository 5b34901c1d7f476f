"""Who is paid: the reference on every task, nobody who did not solve it, and the same each time."""

import asyncio
from collections.abc import Sequence

from rollwright.recipes.worlds.checking.bench import NULL, REFERENCE, Bench, attack_name
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, shown
from rollwright.recipes.worlds.checking.playing import Transcript
from rollwright.recipes.worlds.checking.stage import SLOW_S
from rollwright.verifiers import Composition, Score

__all__ = ["pays_no_attack", "pays_nobody_for_nothing", "pays_the_reference", "repeats_verdicts"]


async def pays_the_reference(bench: Bench) -> str:
    """The reference earns the success threshold on every task."""
    threshold = bench.built().success_threshold
    rewards: list[float] = []
    for task in bench.tasks:
        transcript = bench.played(task, REFERENCE)
        score = await _score(bench, transcript)
        if isinstance(score.outcome, str):
            raise CheckFailedError(f"{transcript.where}: it has no reward but {shown(score.outcome)}: {_said(score)}")
        if score.outcome < threshold:
            raise CheckFailedError(
                f"{transcript.where}: it earns {score.outcome:g}, below the success threshold of {threshold:g}; a "
                f"reference solves every task. {_said(score)}"
            )
        rewards.append(score.outcome)
    return f"it earns {min(rewards):g} to {max(rewards):g} on {len(rewards)} tasks; {threshold:g} is a success"


async def pays_nobody_for_nothing(bench: Bench) -> str:
    """The null agent does not reach the threshold."""
    return await _pays_not(bench, (NULL,))


async def pays_no_attack(bench: Bench) -> str:
    """Attacks do not reach the threshold."""
    names = tuple(attack_name(name) for name in bench.built().attacks)
    if not names:
        raise CheckFailedError("the world names no attack; give at least one agent that tries to be paid unsolved")
    return await _pays_not(bench, names)


async def repeats_verdicts(bench: Bench) -> str:
    """Verdicts are numbers with a reason, the same in another order and another thread."""
    transcripts = list(bench.plays.values())
    first = {t.where: await _score(bench, t) for t in transcripts}
    bench.stage.at("scoring in another thread", SLOW_S)
    composition = _composition(bench)

    async def reversed_scores() -> list[Score]:
        return [(await composition.score([t.submission()]))[0] for t in reversed(transcripts)]

    again = await asyncio.to_thread(lambda: asyncio.run(reversed_scores()))
    for transcript, other in zip(reversed(transcripts), again, strict=True):
        one = first[transcript.where]
        if isinstance(one.outcome, str):
            raise CheckFailedError(
                f"{transcript.where}: the verdict is {shown(one.outcome)} and no number, and the policy could cause it"
                f": {_said(one)}"
            )
        if _content(one) != _content(other):
            raise CheckFailedError(
                f"{transcript.where}: the verdicts were {shown(_content(one))} and, in another thread and order, "
                f"{shown(_content(other))}; a verdict depends on the submission alone"
            )
        mute = next((v.verifier for v in one.verdicts if not v.evidence and v.finding is None), None)
        if mute is not None:
            raise CheckFailedError(f"{transcript.where}: verifier {mute} gives a verdict without evidence or finding")
    return f"{len(transcripts)} submissions, {len(_composition(bench).parts)} verdicts each, the same in another thread"


async def _pays_not(bench: Bench, names: Sequence[str]) -> str:
    threshold = bench.built().success_threshold
    most = float("-inf")
    for task in bench.tasks:
        for name in names:
            transcript = bench.played(task, name)
            score = await _score(bench, transcript)
            if isinstance(score.outcome, str):
                raise CheckFailedError(
                    f"{transcript.where}: it has no reward but {shown(score.outcome)}; what the policy did scores "
                    f"below the threshold, with a finding. {_said(score)}"
                )
            if score.outcome >= threshold:
                raise CheckFailedError(
                    f"{transcript.where}: it is paid {score.outcome:g} without solving the task; below {threshold:g} "
                    f"is due. {_said(score)}"
                )
            most = max(most, score.outcome)
    return f"at most {most:g} is paid in {len(bench.tasks) * len(names)} episodes; {threshold:g} is a success"


async def _score(bench: Bench, transcript: Transcript) -> Score:
    composition = _composition(bench)
    allowed = sum(part.verifier.deadline_s for part in composition.parts) + bench.stage.limit_s
    bench.stage.at(f"scoring {transcript.where}", allowed)
    (score,) = await composition.score([transcript.submission()])
    return score


def _composition(bench: Bench) -> Composition:
    assert bench.composition is not None, "the first check composes it, and nothing follows where it fails"
    return bench.composition


def _content(score: Score) -> list[tuple[object, ...]]:
    return [(v.verifier, v.outcome, v.finding, *[(c.name, c.value) for c in v.components]) for v in score.verdicts]


def _said(score: Score) -> str:
    said = [f"{v.verifier} said {v.outcome} ({v.finding or v.evidence})" for v in score.verdicts]
    return f"Of the verifiers {shown('; '.join(said))}"
