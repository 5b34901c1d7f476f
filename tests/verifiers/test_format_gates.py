"""Tags, sections and language: what keeps the form, what almost does, and what only seems to."""

import asyncio

import pytest

from rollwright.record import Passage
from rollwright.verifiers import (
    AnswerRule,
    Composition,
    LanguageRule,
    Part,
    TagRule,
    VerifierSetupError,
    exact_verifier,
    language_share,
    language_verifier,
    sections_verifier,
    tags_verifier,
)
from tests.verifiers.submissions import submitted, verdict_of

TAGS = tags_verifier()


@pytest.mark.row("S382")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<think>so</think><answer>42</answer>", 1.0),
        ("<think>\nso\n</think>\n\n<answer> 42 </answer>\n", 1.0),
        ("<answer>42</answer><think>so</think>", 0.0),
        ("<think>so</think><answer>42</answer> as I said", 0.0),
        ("<think>so</think>and<answer>42</answer>", 0.0),
        ("<think></think><answer>42</answer>", 0.0),
        ("<think>so</think><answer> </answer>", 0.0),
        ("<think>so<answer>42</answer></think>", 0.0),
        ("<think>so</think><answer>41</answer><answer>42</answer>", 0.0),
        ("<think>so</think><answer>42", 0.0),
        ("<Think>so</Think><answer>42</answer>", 0.0),
        ("＜think＞so＜/think＞<answer>42</answer>", 0.0),
        ("<think>" * 100_000, 0.0),
        ("42", 0.0),
        ("", 0.0),
    ],
)
def test_every_tag_stands_once_in_order_and_filled(text: str, value: float) -> None:
    assert verdict_of(TAGS, submitted(text)).outcome == value


def test_text_outside_of_the_tags_may_be_allowed() -> None:
    loose = tags_verifier(TagRule(outside="any"))
    assert verdict_of(loose, submitted("Well. <think>so</think> then <answer>42</answer>!")).outcome == 1.0
    assert loose.revision != TAGS.revision
    with pytest.raises(VerifierSetupError, match="outside"):
        TagRule(outside="some")
    with pytest.raises(VerifierSetupError, match="tags"):
        TagRule(tags=("a", "a"))


def test_reasoning_that_the_engine_set_apart_counts_for_the_form() -> None:
    passages = (
        Passage(actor="agent", kind="reasoning", text="<think>so</think>"),
        Passage(actor="agent", kind="policy", text="<answer>42</answer>"),
    )
    assert verdict_of(TAGS, submitted(passages)).outcome == 1.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("# Plan\nfirst\n## Result\n42", 1.0),
        ("# plan #\nfirst\n\n# Other\nx\n# RESULT\n42\n", 1.0),
        ("# Plan\n\n# Result\n42", 0.0),
        ("# Result\n42\n# Plan\nfirst", 0.0),
        ("# Plan\nfirst\n# Result\n1\n# Result\n2", 0.0),
        ("Plan\nfirst\nResult\n42", 0.0),
        ("", 0.0),
    ],
)
def test_required_sections_stand_once_in_order_and_filled(text: str, value: float) -> None:
    verifier = sections_verifier(["Plan", "Result"])
    assert verdict_of(verifier, submitted(text)).outcome == value


def test_sections_without_titles_are_refused() -> None:
    for titles in ([], [""], ["a", "A"]):
        with pytest.raises(VerifierSetupError, match="sections"):
            sections_verifier(titles)


def test_a_gate_closes_the_reward_of_a_right_answer_in_the_wrong_form() -> None:
    rule = AnswerRule(form="boxed")
    composition = Composition([Part(verifier=exact_verifier(rule)), Part(verifier=TAGS, role="gate")])
    right = submitted("<think>so</think><answer>\\boxed{42}</answer>", trajectory_id="a")
    bare = submitted("\\boxed{42}", trajectory_id="b")
    assert [score.outcome for score in asyncio.run(composition.score([right, bare]))] == [1.0, 0.0]


# ---------------------------------------------------------------------------------------------------------- language

TEXTS = {
    "en": "First we add the two numbers, and then we take the square of that. So the answer is 16, as it was said.",
    "de": "Zuerst addieren wir die Zahlen und nehmen dann das Quadrat. Also ist die Antwort 16, wie der Text sagt.",
    "fr": "On additionne les deux nombres et on prend le carré. Donc la réponse est 16, comme dans le texte.",
    "es": "Sumamos los dos números y tomamos el cuadrado. Entonces la respuesta es 16, como se dice en el texto.",
    "it": "Sommiamo i due numeri e prendiamo il quadrato. Quindi la risposta è 16, come si dice nel testo che abbiamo.",
    "pt": "Somamos os dois números e tomamos o quadrado. Então a resposta é 16, como se diz em um texto que não temos.",
    "zh": "首先我们把两个数相加，然后取平方。所以答案是十六。",
    "ja": "まず二つの数を足して、それから二乗します。したがって答えは十六です。",
    "ko": "먼저 두 수를 더한 다음 제곱합니다. 그래서 답은 십육입니다.",
    "ru": "Сначала сложим два числа, затем возведём в квадрат. Ответ: шестнадцать.",
    "ar": "نجمع العددين أولا ثم نأخذ المربع. الجواب هو ستة عشر.",
    "hi": "पहले हम दो संख्याओं को जोड़ते हैं। उत्तर सोलह है।",
}


@pytest.mark.row("S417")
@pytest.mark.parametrize("written", TEXTS)
@pytest.mark.parametrize("asked", TEXTS)
def test_a_text_in_another_language_loses_the_term(asked: str, written: str) -> None:
    verifier = language_verifier(LanguageRule(language=asked, least_share=0.8))
    assert verdict_of(verifier, submitted(TEXTS[written])).outcome == float(asked == written)


@pytest.mark.row("S417")
def test_reasoning_that_mixes_languages_loses_the_term_and_a_share_is_paid_where_asked() -> None:
    mixed = TEXTS["en"] + TEXTS["zh"] * 4
    assert verdict_of(language_verifier(), submitted(mixed)).outcome == 0.0
    share = verdict_of(language_verifier(LanguageRule(pays="share")), submitted(mixed)).outcome
    assert isinstance(share, float)
    assert 0.2 < share < 0.8
    assert share == pytest.approx(language_share(mixed, "en"))
    hidden = (Passage(actor="agent", kind="reasoning", text=TEXTS["zh"]), *submitted(TEXTS["en"]).passages)
    assert verdict_of(language_verifier(), submitted(hidden)).outcome == 0.0


def test_code_and_formulas_are_of_no_language() -> None:
    text = TEXTS["ru"] + "\n```python\nfor the_thing in that: print('so it is')\n```\n$x_{max} = \\frac{a}{b}$ \\alpha"
    assert language_share(text, "ru") > 0.9
    assert language_share("$x = 1$ 42 + 1", "de") == 1.0


def test_look_alike_letters_are_of_their_own_script() -> None:
    assert language_share("Тhe аnswеr", "en") < 0.8


def test_a_task_may_ask_for_its_language() -> None:
    verifier = language_verifier()
    assert verdict_of(verifier, submitted(TEXTS["de"], info={"language": "de"})).outcome == 1.0
    assert verdict_of(verifier, submitted(TEXTS["en"], info={"language": "de"})).outcome == 0.0
    assert verdict_of(verifier, submitted("")).finding == "no_answer"
    with pytest.raises(VerifierSetupError, match="languages are"):
        LanguageRule(language="tlh")
