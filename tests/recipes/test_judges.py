"""Judges and reward models by recipe: from a server, a folder and a client of one's own, calibrated before they pay."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from rollwright.learner.errors import ModelError
from rollwright.learner.models import make_model
from rollwright.learner.scalar_model import load_scalar_model
from rollwright.recipes.build.judges import AnyJudgeConfig, Closing, build_judge
from rollwright.recipes.config.judges import (
    EquivalenceJudgeConfig,
    GradeJudgeConfig,
    PairwiseJudgeConfig,
    RewardModelConfig,
    RubricJudgeConfig,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import resolve
from rollwright.record import Verifier, ids
from rollwright.rendering import load_renderer
from rollwright.verifiers import AnswerRule
from rollwright.verifiers.judging.calibration import JudgeRefusedError
from rollwright.verifiers.judging.pairwise import CircularJudge
from rollwright.verifiers.reward_model import RewardModelVerifier, preference_chance
from tests.learner.small import SHAPE
from tests.rendering.tokenizers_for_tests import small_renderer
from tests.verifiers.judging.judges import FunctionJudge, judge_server
from tests.verifiers.submissions import ask, submitted, verdict_of

CUSTOM = "tests.recipes.test_judges:by_word"


def by_word() -> FunctionJudge:
    """A judge of one's own: likes the word `good`."""
    return FunctionJudge(reply=lambda p: f"GRADE: {10 if 'good' in p.split('[BEGIN DATA]')[-1] else 0}")


def built(config: AnyJudgeConfig) -> Verifier:
    closers: list[Closing] = []
    verifier = build_judge(config, AnswerRule(), closers)
    assert closers == []
    return verifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A tiny reward model with a tokenizer, as transformers writes it."""
    path = tmp_path_factory.mktemp("reward-model")
    small_renderer(path)
    vocabulary = len(json.loads((path / "tokenizer.json").read_text())["model"]["vocab"]) + 64
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        pad_token_id=None,
    )
    config.num_labels = 1
    LlamaForSequenceClassification(config).save_pretrained(path)
    return path


def test_a_judge_behind_a_server_is_built_from_its_lines_and_its_key_is_read_from_a_file(tmp_path):
    (tmp_path / "key").write_text("k-9\n")
    with judge_server() as server:
        config = GradeJudgeConfig(
            model="m", url=server.url, key_file=str(tmp_path / "key"), prompt_price=1.0, completion_price=2.0
        )
        verdict = verdict_of(built(config), submitted("Paris"))
    assert (verdict.outcome, server.keys) == (0.7, ["Bearer k-9"])
    assert verdict.cost == pytest.approx((100 * 1 + 10 * 2) / 1e6)
    assert verdict.verifier == "judge"


def test_each_kind_stands_in_a_recipe_and_its_backends_are_told_apart():
    resolved = resolve(
        "arithmetic-tool",
        [f'verifier.parts=[{{kind="exact"}}, {{kind="judge", backend="custom", model="{CUSTOM}", weight=0.25}}]'],
    )
    judge = resolved.recipe.verifier.parts[1]
    assert isinstance(judge, GradeJudgeConfig) and judge.weight == 0.25
    assert verdict_of(built(judge), submitted("good")).outcome == 1.0
    assert built(EquivalenceJudgeConfig(model=CUSTOM, backend="custom")).name == "equivalence"
    pairwise = built(PairwiseJudgeConfig(model=CUSTOM, backend="custom", orders="one"))
    assert isinstance(pairwise, CircularJudge) and pairwise.orders == "one"
    with pytest.raises(RecipeError, match="url and key_file are for backend 'server'"):
        built(GradeJudgeConfig(model=CUSTOM, backend="custom", url="http://x"))
    with pytest.raises(RecipeError, match="holds no model"):
        built(GradeJudgeConfig(model="nowhere", backend="folder"))


def test_a_rubric_is_read_from_a_file_or_from_each_task(tmp_path):
    path = tmp_path / "rubric.json"
    path.write_text('[{"text": "is good"}, {"text": "is short", "weight": 3}]')
    rubric = built(RubricJudgeConfig(model="m", url="http://127.0.0.1:9", rubric=str(path)))
    assert rubric.revision != built(RubricJudgeConfig(model="m", url="http://127.0.0.1:9")).revision
    path.write_text("{}")
    with pytest.raises(RecipeError, match="holds no rubric"):
        built(RubricJudgeConfig(model="m", url="http://127.0.0.1:9", rubric=str(path)))


@pytest.mark.row("S419")
def test_a_judge_is_calibrated_before_it_pays_and_its_first_record_is_kept(tmp_path):
    rows = [
        {"task": {"question": "q?", "answer": "a"}, "completion": f"{word} {n}", "label": word == "good"}
        for word in ("good", "bad")
        for n in range(4)
    ]
    cases, record = tmp_path / "cases.jsonl", tmp_path / "record.json"
    cases.write_text("\n".join(map(json.dumps, rows)))
    config = GradeJudgeConfig(model=CUSTOM, backend="custom", calibration=str(cases), calibration_record=str(record))
    built(config)
    kept = json.loads(record.read_text())
    assert kept["strata"]["all"]["share"] == 1.0
    kept["strata"]["all"]["share"] = 0.9
    record.write_text(json.dumps(kept))
    with pytest.raises(JudgeRefusedError, match="drifted"):
        built(config)
    cases.write_text("\n".join(json.dumps(row | {"label": not row["label"]}) for row in rows))
    with pytest.raises(JudgeRefusedError, match=r"agrees with 0\.000"):
        built(config)


def test_a_model_in_our_own_engine_judges_and_what_it_cannot_say_is_unparsable(tmp_path):
    small_renderer(tmp_path)
    vocabulary = len(json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]) + 64
    make_model(replace(SHAPE, vocab_size=vocabulary), seed=0).save_pretrained(tmp_path)
    config = GradeJudgeConfig(
        model=str(tmp_path), backend="folder", max_tokens=8, max_context_tokens=2048, attempts=1, concurrency=2
    )
    closers: list[Closing] = []
    verifier = build_judge(config, AnswerRule(), closers)
    try:
        verdicts = ask(verifier, submitted("Paris"))
        assert [v.outcome for v in verdicts] == ["unparsable_judge"]
        assert [v.evidence for v in ask(verifier, submitted("Paris"))] == [v.evidence for v in verdicts]
    finally:
        for closer in closers:
            closer.close()
    assert len(closers) == 1


@pytest.mark.row("S372")
def test_a_reward_model_from_transformers_scores_alike_in_any_company(folder):
    verifier = built(RewardModelConfig(model=str(folder)))
    texts = ["Paris", "London is far", "", "Paris"]
    submissions = [submitted(t, trajectory_id=f"t00000{n}-00-0") for n, t in enumerate(texts)]
    together = ask(verifier, *submissions)
    assert [v.outcome for v in together] == [verdict_of(verifier, s).outcome for s in submissions]
    assert together[0].outcome == together[3].outcome != together[1].outcome
    assert all(isinstance(v.outcome, float) and 0 < v.outcome < 1 for v in (together[0], together[1]))
    assert (together[2].outcome, together[2].finding) == (0.0, "no_answer")
    raw = {part.name: part.value for part in together[0].components}["score"]
    assert together[0].outcome == pytest.approx(1 / (1 + torch.tensor(-raw).exp().item()))
    again = built(RewardModelConfig(model=str(folder)))
    assert isinstance(again, RewardModelVerifier)
    assert (again.revision, asyncio.run(_score(again))) == (verifier.revision, raw)
    assert preference_chance(1.2, 0.4) == pytest.approx(0.6899745)  # M118.a


async def _score(verifier: RewardModelVerifier) -> float:
    (verdict,) = await verifier.verify([submitted("Paris")])
    return {part.name: part.value for part in verdict.components}["score"]


def test_a_scalar_model_keeps_the_end_of_a_long_row_and_needs_one_output(folder, tmp_path):
    model = load_scalar_model(folder)
    row = ids(range(3, 43)).repeat(10)
    assert model.score([row]) == model.score([row[-256:]])
    config = LlamaConfig(vocab_size=64, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="2 outputs"):
        load_scalar_model(tmp_path)
    assert load_renderer(folder).revision({}) != ""
