"""Searching: what is found, in which order, and that a changed index is another environment."""

import asyncio
import hashlib
import json
from typing import Any

import pytest

from rollwright.environments import (
    EnvironmentSetupError,
    PassageIndex,
    SearchLimits,
    TagSearchEnvironment,
    ToolEnvironment,
    open_index,
    passages_text,
    search_tool,
)
from rollwright.record import Action
from rollwright.tasks import (
    Corpus,
    Document,
    SplitSizes,
    TaskError,
    corpus_of,
    invented_facts,
    payload_of,
    question_strata,
    read_corpus,
)

FACTS = invented_facts(people=30)
CORPUS = corpus_of(FACTS)
INDEX = PassageIndex(CORPUS)


def info_of(task) -> Any:
    return payload_of(task).info


def test_a_name_finds_its_own_passage_first():
    for document in CORPUS.documents:
        assert INDEX.search(document.title)[0] == document


def test_equal_scores_come_in_the_corpus_order_and_nothing_comes_without_a_shared_word():
    corpus = Corpus(name="c", documents=tuple(Document(title=f"t{n}", text="same words") for n in range(5)))
    assert [d.title for d in PassageIndex(corpus).search("same")] == ["t0", "t1", "t2"]
    assert INDEX.search("xyzzy") == INDEX.search("") == INDEX.search("?!") == ()


@pytest.mark.row("S469")
def test_a_changed_index_is_another_environment_and_is_refused_where_its_digest_was_named():
    documents = list(CORPUS.documents)
    documents[3] = Document(title=documents[3].title, text=documents[3].text + " ")
    changed = Corpus(name=CORPUS.name, documents=tuple(documents))
    assert open_index(CORPUS, sha256=INDEX.sha256).sha256 == INDEX.sha256
    for other in (changed, Corpus(name="c", documents=CORPUS.documents[:-1])):
        with pytest.raises(EnvironmentSetupError, match="name the new digest on purpose"):
            open_index(other, sha256=INDEX.sha256)
    with pytest.raises(EnvironmentSetupError, match="has sha256"):
        open_index(CORPUS, top_k=5, sha256=INDEX.sha256)
    environments = [ToolEnvironment(tools=[search_tool(PassageIndex(c))]) for c in (CORPUS, CORPUS, changed)]
    assert environments[0].revision == environments[1].revision != environments[2].revision
    tagged = [TagSearchEnvironment(PassageIndex(c)).revision for c in (CORPUS, CORPUS, changed)]
    assert tagged[0] == tagged[1] != tagged[2]


@pytest.mark.row("S469")
def test_a_corpus_file_is_read_under_its_digest_alone(tmp_path):
    path = tmp_path / "corpus.jsonl"
    rows = [{"title": "Mira", "text": "born in Kel"}, {"id": "1", "contents": '"Kel"\na town'}]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    titles = [document.title for document in read_corpus(path, sha256=sha256).documents]
    assert titles == ["Mira", "Kel"]
    path.write_text(path.read_text().replace("Kel", "Kol"))
    with pytest.raises(TaskError, match="restore the file"):
        read_corpus(path, sha256=sha256)


def test_questions_can_be_answered_from_what_their_queries_find():
    for stratum in question_strata(FACTS, SplitSizes(train=80, held_out=20), seed=1):
        for task in (*stratum.train, *stratum.held_out):
            payload, info = payload_of(task), info_of(task)
            found = [INDEX.search(query) for query in info["queries"]]
            assert all(title in {d.title for d in one} for title, one in zip(info["supporting"], found, strict=True))
            assert payload.answer in " ".join(passages_text(one) for one in found)


def test_what_is_made_up_is_the_same_every_time():
    assert corpus_of(invented_facts(people=30)).sha256 == CORPUS.sha256
    assert corpus_of(invented_facts(people=30, seed=1)).sha256 != CORPUS.sha256
    titles = [document.title for document in corpus_of(invented_facts(people=600)).documents]
    assert len(titles) == len(set(titles)) == 1200


@pytest.mark.row("S465")
def test_a_tagged_episode_resets_steps_and_ends_and_counts_its_searches():
    (task, *_) = question_strata(FACTS, SplitSizes(train=8, held_out=0), seed=1)[0].train

    async def scenario():
        environment = TagSearchEnvironment(INDEX, limits=SearchLimits(searches=1))
        async with environment.open(task, seed=0) as episode:

            async def says(text, turn) -> Any:
                result = await episode.step(Action(actor="agent", turn=turn, text=text, calls=()))
                return result.observations[0].messages[0].text if result.observations else result

            begun = await episode.begin()
            assert begun.observations[0].messages[0].text.endswith(payload_of(task).messages[0].text)
            name = info_of(task)["queries"][0]
            shown = await says(f"I look. <search> {name} </search> <answer> no </answer>", 0)
            assert shown.startswith(f"<information>[1] {name}: ")
            assert shown.endswith("</information>")
            assert "neither" in await says("hm", 1)
            assert "no searches left" in await says("<search> more </search>", 2)
            saved = await episode.snapshot()
            ended = await says("<answer> x </answer>", 3)
            assert ended.observations == () and ended.end is None
            assert json.loads((await episode.artifacts())["searches.json"]) == [name]
        async with environment.open(task, seed=0, snapshot=saved) as again:
            assert (await again.begin()).observations[0].messages == ()
            assert await again.snapshot() == saved

    asyncio.run(scenario())
