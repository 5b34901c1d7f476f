"""Verifiers by name, and as parts of a recipe."""

import asyncio
from typing import Any

import pytest

from rollwright.recipes.build.named_verifiers import VERIFIER_NAMES, named_verifier
from rollwright.recipes.build.verifiers import build_verifiers
from rollwright.recipes.config.world import VerifierConfig
from rollwright.recipes.errors import RecipeError
from tests.verifiers.submissions import submitted, verdict_of

LABELED = {
    "exact": [("Paris", "Paris", {}, True), ("The answer is Paris", "Paris", {}, True),
              ("not Paris", "Paris", {}, False)],
    "numeric": [("1,000", "1000", {}, True), ("So \\boxed{1000}", "1000", {}, True),
                ("999 or 1000", "1000", {}, False)],
    "math": [("$\\frac{2}{4}$", "1/2", {}, True), ("\\boxed{x+1}", "1+x", {}, True),
             ("\\boxed{1}\\boxed{2}", "2", {}, False)],
    "units": [("It weighs 5 kg, so\nanswer: 5000 g", "5 kg", {}, True), ("5", "5 kg", {}, False)],
    "set": [("{2, 1}", "1, 2", {}, True), ("1", "1, 2", {}, False)],
    "choice": [("The answer is (B).", "B", {}, True), ("A or B", "B", {}, False)],
    "text_match": [("the Eiffel Tower", "Eiffel tower", {}, True), ("a tower", "Eiffel tower", {}, False)],
    "json_schema": [('{"a": 1}', "x", {"schema": {"required": ["a"]}}, True), ("{}", '{"required": ["a"]}', {}, False)],
    "unit_tests": [
        ("def f(x):\n    return x", "t", {"tests": [{"args": [1], "expected": 1}]}, True),
        ("def f(x):\n    return True", "t", {"tests": ["assert f(1) == 1"]}, False),
    ],
    "format": [("\\boxed{1}", "1", {}, True), ("", "1", {}, False)],
    "tags": [("<think>a</think><answer>b</answer>", "b", {}, True), ("b", "b", {}, False)],
    "sections": [("# Answer\n42", "42", {}, True), ("42", "42", {}, False)],
    "language": [("So the answer is that it was 42.", "42", {}, True),
                 ("Also ist das nicht die Antwort.", "42", {}, False)],
}  # fmt: skip


@pytest.mark.row("S214")
@pytest.mark.parametrize("name", VERIFIER_NAMES)
def test_every_verifier_that_ships_is_made_by_its_name_and_judges_plain_completions(name: str) -> None:
    made = named_verifier(name)
    try:
        assert made.verifier.name == name
        for completion, gold, info, is_right in LABELED[name]:
            verdict = verdict_of(made.verifier, submitted(completion, gold, info=info))
            assert verdict.outcome == float(is_right), (completion, verdict)
    finally:
        made.close()


@pytest.mark.row("S214")
@pytest.mark.parametrize("name", sorted(set(VERIFIER_NAMES) - {"format", "tags", "sections", "language"}))
def test_every_verifier_supplies_the_reward_of_a_recipe_by_its_name(name: str) -> None:
    built = build_verifiers(VerifierConfig.model_validate({"parts": [{"kind": name}], "answer_form": "boxed"}))
    try:
        completion, gold, info, _ = LABELED[name][0]
        text = completion if name in ("json_schema", "unit_tests") else f"\\boxed{{{gold}}}"
        (score,) = asyncio.run(built.composition.score([submitted(text, gold, info=info)]))
        assert score.outcome == 1.0
        assert [(part.name, part.value) for part in score.reward_components] == [(name, 1.0)]
        assert score.verdicts[0].evidence
    finally:
        built.close()


def test_options_are_the_keys_of_the_part_and_change_the_revision() -> None:
    loose, strict = named_verifier("units", tolerance=0.1), named_verifier("units")
    assert loose.verifier.revision != strict.verifier.revision
    assert verdict_of(loose.verifier, submitted("5.2 kg", "5 kg")).outcome == 1.0
    assert verdict_of(strict.verifier, submitted("5.2 kg", "5 kg")).outcome == 0.0


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("maths", {}, "Did you mean math"),
        ("units", {"tolerence": 1}, "takes tolerance: tolerence: Extra inputs"),
        ("units", {"tolerance": 2}, "less than 1"),
        ("choice", {"x": 1}, "takes no options"),
    ],
)
def test_a_name_or_an_option_that_there_is_not_is_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        named_verifier(name, **options)


def test_a_gate_of_a_recipe_closes_and_shaping_adds() -> None:
    right = submitted("<answer>\\boxed{42}</answer>", trajectory_id="a")
    bare = submitted("\\boxed{42}", trajectory_id="b")
    for role, rewards in (("gate", [1.0, 0.0]), ("shaping", [1.2, 1.0])):
        tags = {"kind": "tags", "tags": ["answer"], "role": role, "weight": 0.2}
        config = VerifierConfig.model_validate({"parts": [{"kind": "exact"}, tags], "answer_form": "boxed"})
        built = build_verifiers(config)
        assert [s.outcome for s in asyncio.run(built.composition.score([right, bare]))] == pytest.approx(rewards)


def of_trl(completions, answer, **columns):
    return [float(gold in said) for said, gold in zip(completions, answer, strict=True)]


def unbindable(weather):
    return 0.0


def test_a_function_of_another_system_is_a_part_by_its_path() -> None:
    part = {"kind": "function", "path": "tests.recipes.test_named_verifiers:of_trl"}
    built = build_verifiers(VerifierConfig.model_validate({"parts": [part]}))
    (score,) = asyncio.run(built.composition.score([submitted("it is 42")]))
    assert score.outcome == 1.0
    for name, said in (
        ("unbindable", "cannot be bound"),
        ("LABELED", "name a function"),
        ("missing", "cannot be loaded"),
    ):
        part = {"kind": "function", "path": f"tests.recipes.test_named_verifiers:{name}"}
        with pytest.raises(RecipeError, match=said):
            build_verifiers(VerifierConfig.model_validate({"parts": [part]}))
