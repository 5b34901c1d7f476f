"""Answers that mean to be paid without being right: each scores what it earned, soon, and as a number."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from rollwright.recipes.build.named_verifiers import named_verifier
from tests.verifiers.hostile.attacks import Attack, read_attacks, verified

ATTACKS = read_attacks("answers.jsonl")
MATH_S = 1.0
"""Of a mathematical answer; what needs longer ends in a finding."""
RESTART_S = 25.0
"""A process of mathematics was ended and another one started, beside other tests."""


def subject(attack: Attack) -> str:
    options = attack.row.get("options", {})
    return " ".join([attack.row["verifier"], json.dumps(options)] if options else [attack.row["verifier"]])


def complaints(attacks: Sequence[Attack]) -> list[str]:
    name, options = attacks[0].row["verifier"], attacks[0].row.get("options", {})
    limits: dict[str, Any] = {"timeout_s": MATH_S} if name == "math" else {}
    named = named_verifier(name, **options, **limits)
    try:
        earned = asyncio.run(verified(named.verifier, attacks))
    finally:
        named.close()
    within_s = min(named.verifier.deadline_s, RESTART_S)
    return [said for one in earned if (said := one.complaint(within_s=within_s))]


SUBJECTS = sorted({subject(attack) for attack in ATTACKS})


def test_every_attack_has_an_id_of_its_own_and_says_what_it_tries() -> None:
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)
    assert all(attack.tries and attack.kind for attack in ATTACKS)


@pytest.mark.parametrize("name", SUBJECTS)
def test_an_answer_is_paid_what_it_earned(name: str) -> None:
    assert complaints([a for a in ATTACKS if subject(a) == name and not a.is_slow]) == []


@pytest.mark.slow
@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.is_slow], ids=lambda attack: attack.id)
def test_an_answer_that_keeps_a_parser_busy_ends_in_a_number(attack: Attack) -> None:
    assert complaints([attack]) == []
