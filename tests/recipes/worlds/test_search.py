"""The search world: invented facts by default, a corpus and questions of one's own under their digests."""

import hashlib
import json
from pathlib import Path

import pytest

from rollwright.environments import PassageIndex
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds import load_world, null_agent
from rollwright.tasks import TaskError, corpus_of, invented_facts
from tests.recipes.worlds.episodes import commanded, score, tasks_of

SETS = Path(__file__).parents[2] / "data" / "question_sets"


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def own(tmp_path):
    """A corpus file, and the sample of DeepSearchQA's format asked about it."""
    corpus = tmp_path / "passages.jsonl"
    rows = [
        {"title": "Kelborough", "text": "Kelborough on the Draunor was founded in 1012."},
        {"title": "Holamont", "text": "Holamont on the Draunor was founded in 1200."},
    ]
    corpus.write_text("\n".join(json.dumps(row) for row in rows))
    questions = SETS / "deepsearchqa.jsonl"
    return {
        "corpus": str(corpus),
        "corpus_sha256": sha256_of(corpus),
        "questions": str(questions),
        "questions_format": "deepsearchqa",
        "questions_sha256": sha256_of(questions),
        "questions_license": "LicenseRef-own",
    }


@pytest.mark.row("S465")
@pytest.mark.parametrize("form", ["tool", "tags"])
def test_questions_of_a_set_are_searched_and_graded_over_a_corpus_of_ones_own(own, form):
    world = load_world("search", {**own, "form": form})
    (task,) = tasks_of(world)
    assert task.source == "deepsearchqa"
    assert score(world, task, world.reference(task, 0)).outcome == 1.0
    assert score(world, task, null_agent(task, 0)).outcome == 0.0
    wrong = commanded("<answer> Holamont </answer>" if form == "tags" else "answer: Holamont")
    assert score(world, task, wrong).outcome == 0.0


def test_a_corpus_without_its_digest_or_its_questions_is_refused(own):
    for missing in ("corpus_sha256", "questions", "corpus"):
        with pytest.raises(RecipeError, match="together"):
            load_world("search", {**own, missing: ""})
    with pytest.raises(RecipeError, match="restore the file"):
        load_world("search", {**own, "corpus_sha256": "0" * 64})
    with pytest.raises(TaskError, match="another file than was named"):
        tasks_of(load_world("search", {**own, "questions_sha256": "0" * 64}))


@pytest.mark.row("S469")
def test_an_index_that_was_named_and_has_changed_is_refused():
    corpus = corpus_of(invented_facts(people=60))
    world = load_world("search", {"index_sha256": PassageIndex(corpus).sha256})
    assert all(corpus.sha256[:16] in task.revision for task in tasks_of(world))  # The manifest holds every revision.
    with pytest.raises(RecipeError, match="name the new digest on purpose"):
        load_world("search", {"index_sha256": "0" * 64})


def test_the_form_of_searching_is_one_of_two():
    with pytest.raises(RecipeError, match="allowed are tool and tags"):
        load_world("search", {"form": "sql"})
