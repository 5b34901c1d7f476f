"""Who is paid: the reference on every task, nobody who did not solve it, and the same each time."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rollwright.recipes.worlds.checking.bench import NULL, REFERENCE, Bench, attack_name
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, shown
from rollwright.recipes.worlds.checking.playing import Transcript
from rollwright.recipes.worlds.checking.stage import SLOW_S, describe
from rollwright.record import Submission
from rollwright.verifiers import Composition, Score
from rollwright.verifiers.restating import restate

__all__ = ["pays_no_attack", "pays_nobody_for_nothing", "pays_the_reference", "repeats_verdicts"]


_BATCH = 8
"""Submissions that a verifier is shown at once."""


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
        _refuse_late(bench, transcript, one)
    await _refuse_comparison(bench, transcripts, first)
    for name in (REFERENCE, NULL):
        transcript = bench.played(bench.tasks[0], name)
        await _refuse_false_numbers(bench, transcript, first[transcript.where])
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


def _refuse_late(bench: Bench, transcript: Transcript, score: Score) -> None:
    for part, verdict in zip(_composition(bench).parts, score.verdicts, strict=True):
        deadline_s = part.verifier.deadline_s
        if verdict.latency_s > deadline_s:
            raise CheckFailedError(
                f"{transcript.where}: verifier {verdict.verifier} took {verdict.latency_s:.2g} s for a verdict, and "
                f"its deadline is {deadline_s:g} s; it must await, or work in a thread or process, to be ended"
            )


async def _refuse_comparison(bench: Bench, transcripts: Sequence[Transcript], first: Mapping[str, Score]) -> None:
    """Asked for all verdicts at once, a verifier of single trajectories says the same."""
    transcripts = transcripts[:_BATCH]
    submissions = [transcript.submission() for transcript in transcripts]
    for number, part in enumerate(_composition(bench).parts):
        verifier = part.verifier
        if verifier.scope != "trajectory":
            continue
        what = f"verifier {verifier.name}, asked for {len(submissions)} verdicts at once"
        allowed_s = verifier.deadline_s * len(submissions) + bench.stage.limit_s
        bench.stage.at(what, allowed_s)
        try:
            async with asyncio.timeout(allowed_s):
                verdicts = restate(verifier, await verifier.verify(submissions), submissions, 0.0)
        except Exception as error:
            raise CheckFailedError(f"{what}, gave none: {describe(error)}") from error
        for transcript, verdict in zip(transcripts, verdicts, strict=True):
            alone = first[transcript.where].verdicts[number]
            if verdict.outcome != alone.outcome:
                raise CheckFailedError(
                    f"{transcript.where}: {what}, said {shown(verdict.outcome)} and {shown(alone.outcome)} when it was "
                    "asked for this one alone; a verdict depends on the submission alone, not on those beside it"
                )


async def _refuse_false_numbers(bench: Bench, transcript: Transcript, right: Score) -> None:
    """What the policy did not cause is an error and no number."""
    known = transcript.submission()
    broken = {
        "a task that cannot be read": replace(known, task=replace(known.task, payload="no JSON")),
        "no artifacts": replace(known, artifacts={}),
    }
    for what, submission in broken.items():
        score = await _scored(bench, submission, f"{transcript.where}, with {what}")
        for one, other in zip(right.verdicts, score.verdicts, strict=True):
            if isinstance(one.outcome, str) or isinstance(other.outcome, str) or one.outcome == other.outcome:
                continue
            if submission.task == known.task and other.outcome < one.outcome:
                continue  # That nothing was left may be a finding about the policy; it never pays more.
            raise CheckFailedError(
                f"{transcript.where}: verifier {one.verifier} said {one.outcome:g}, and {other.outcome:g} with {what}; "
                "what the policy did not cause is an error (`grader_error`; raise GoldError), never a number"
            )


async def _score(bench: Bench, transcript: Transcript) -> Score:
    return await _scored(bench, transcript.submission(), transcript.where)


async def _scored(bench: Bench, submission: Submission, where: str) -> Score:
    composition = _composition(bench)
    allowed = sum(part.verifier.deadline_s for part in composition.parts) + bench.stage.limit_s
    bench.stage.at(f"scoring {where}", allowed)
    (score,) = await composition.score([submission])
    return score


def _composition(bench: Bench) -> Composition:
    assert bench.composition is not None, "the first check composes it, and nothing follows where it fails"
    return bench.composition


def _content(score: Score) -> list[tuple[object, ...]]:
    return [(v.verifier, v.outcome, v.finding, *[(c.name, c.value) for c in v.components]) for v in score.verdicts]


def _said(score: Score) -> str:
    said = [f"{v.verifier} said {v.outcome} ({v.finding or v.evidence})" for v in score.verdicts]
    return f"Of the verifiers {shown('; '.join(said))}"
