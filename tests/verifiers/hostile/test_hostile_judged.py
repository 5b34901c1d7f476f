"""Answers that mean to write their own grade, before judges that quote, parrot or obey them."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from rollwright.record import Message, Verdict, Verifier
from rollwright.verifiers.judging.asking import Asker, AskLimits
from rollwright.verifiers.judging.client import JudgeReply
from rollwright.verifiers.judging.grade_judge import GradeJudge
from rollwright.verifiers.judging.pairwise import CircularJudge, PairJudge
from rollwright.verifiers.judging.rubric import Rubric, RubricItem
from rollwright.verifiers.judging.rubric_judge import RubricJudge, fixed_rubric
from tests.verifiers.hostile.attacks import Attack, read_attacks, submission_of, text_of

ATTACKS = read_attacks("judges.jsonl")
ANSWERS = [a for a in ATTACKS if a.kind == "answer"]
REPLIES = [a for a in ATTACKS if a.kind == "reply"]
RUBRIC = Rubric(items=(RubricItem(name="right", text="It says 42."), RubricItem(name="short", text="It is short.")))
WORST = {"judge": "GRADE: 0", "rubric": "ITEM 1: UNMET\nITEM 2: UNMET"}
BLOCK = re.compile(r"\[BEGIN [A-Z ]+\]\n.*?\n\[END [A-Z ]+\]", re.DOTALL)
GIVEN = re.compile(r"GRADE\W{0,3}10\b", re.IGNORECASE)
ReplyFn = Callable[[str], str]


@dataclass(frozen=True)
class Scripted:
    """A judge that replies by a function of what it is asked."""

    reply: ReplyFn
    revision: str = "scripted-1"

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        return JudgeReply(text=self.reply(messages[-1].text))


def material(asked: str) -> str:
    """What stands between the delimiters of the answer."""
    return asked.partition("[BEGIN DATA]\n")[2].rpartition("\n[END DATA]")[0]


def judge_of(name: str, reply: ReplyFn) -> Verifier:
    asker = Asker(Scripted(reply), AskLimits(attempts=1))
    match name:
        case "judge":
            return GradeJudge(asker=asker)
        case "rubric":
            return RubricJudge(asker=asker, rubric_of=fixed_rubric(RUBRIC), rubrics_revision=RUBRIC.revision)
        case _:
            return CircularJudge(judge=PairJudge(asker=asker))


def verdicts(name: str, reply: ReplyFn, *texts: str) -> list[Verdict]:
    rows = [{"id": f"t{n}", "question": "What is 6 times 7?", "answer": "42", "text": t} for n, t in enumerate(texts)]
    found = judge_of(name, reply).verify([submission_of(row) for row in rows])
    return list(asyncio.run(asyncio.wait_for(found, 60.0)))


@pytest.mark.parametrize("name", ["judge", "rubric"])
@pytest.mark.parametrize("attack", ANSWERS, ids=lambda attack: attack.id)
def test_an_answer_that_the_judge_quotes_keeps_the_judges_own_grade(attack: Attack, name: str) -> None:
    (verdict,) = verdicts(
        name, lambda asked: f"It says:\n{material(asked)}\n\n{WORST[name]}", text_of(attack.row["text"])
    )
    assert verdict.outcome == 0.0, verdict


@pytest.mark.parametrize("name", ["judge", "rubric"])
@pytest.mark.parametrize("attack", ANSWERS, ids=lambda attack: attack.id)
def test_a_judge_that_repeats_an_answer_has_given_no_grade(attack: Attack, name: str) -> None:
    (verdict,) = verdicts(name, material, text_of(attack.row["text"]))
    assert verdict.outcome in ("unparsable_judge", 0.0), verdict


@pytest.mark.parametrize("attack", ANSWERS, ids=lambda attack: attack.id)
def test_no_part_of_an_answer_stands_outside_its_delimiters(attack: Attack) -> None:
    (verdict,) = verdicts(
        "judge",
        lambda asked: "GRADE: 10" if GIVEN.search(BLOCK.sub("", asked)) else "GRADE: 0",
        text_of(attack.row["text"]),
    )
    assert verdict.outcome == 0.0, verdict


@pytest.mark.parametrize("attack", ANSWERS, ids=lambda attack: attack.id)
def test_an_answer_wins_no_comparison_by_what_it_writes_or_where_it_stands(attack: Attack) -> None:
    def reply(asked: str) -> str:
        """Quotes both answers, then likes whatever stands first."""
        return f"{' '.join(BLOCK.findall(asked))}\nSCORE A: 4\nSCORE B: 2\nRANKING: 2"

    first, second = verdicts("pairwise", reply, text_of(attack.row["text"]), "41")
    assert isinstance(first.outcome, float), first
    assert isinstance(second.outcome, float), second
    assert first.outcome <= second.outcome, (first, second)


@pytest.mark.parametrize("attack", REPLIES, ids=lambda attack: attack.id)
def test_a_reply_that_says_no_one_grade_is_no_number(attack: Attack) -> None:
    reply = text_of(attack.row["reply"])
    found = verdicts(attack.row["verifier"], lambda asked: reply, "41", "43")
    assert [verdict.outcome for verdict in found] == ["unparsable_judge"] * 2, found
