"""Search over an offline corpus by BM25: look passages up, then answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from rollwright.environments import (
    DemonstratedTurn,
    DemonstrateFn,
    PassageIndex,
    SearchLimits,
    TagSearchEnvironment,
    ToolEnvironment,
    ToolLimits,
    open_index,
    passages_text,
    search_tool,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.world import World
from rollwright.record import Environment, Task, ToolRequest, canonical_json
from rollwright.tasks import (
    Corpus,
    Facts,
    QuestionFormat,
    SplitSizes,
    Stratum,
    corpus_of,
    import_questions,
    invented_facts,
    payload_of,
    question_strata,
    read_corpus,
    stratum_of,
)
from rollwright.verifiers import Part, TextMatchRule, text_match_verifier

__all__ = ["load"]


def load(  # noqa: PLR0913 - each is one key of a recipe
    *,
    people: int = 60,
    form: str = "tool",
    max_searches: int = 4,
    top_k: int = 3,
    index_sha256: str = "",
    corpus: str = "",
    corpus_sha256: str = "",
    questions: str = "",
    questions_format: str = "",
    questions_sha256: str = "",
    questions_license: str = "",
) -> World:
    """Questions of one and two hops over passages that have to be searched.

    Args:
        people: of the invented corpus, which decides its size.
        form: `tool`: search(query) and a line `answer:`. `tags`: <search>, <information> and <answer>.
        max_searches: in an episode.
        top_k: passages that a search shows.
        index_sha256: that the index must have; a changed one is refused. Empty: any.
        corpus: a file of passages in place of the invented ones.
        corpus_sha256: of that file; needed with it.
        questions: a file of questions about that corpus; needed with it.
        questions_format: one of `tasks.QUESTION_FORMATS`.
        questions_sha256: of that file.
        questions_license: SPDX identifier, one of `tasks.LICENSES`.
    """
    if form not in ("tool", "tags"):
        raise RecipeError(f"form is {form!r}; allowed are tool and tags")
    if bool(corpus) != bool(questions) or (corpus and not corpus_sha256):
        raise RecipeError("a corpus of your own needs `corpus`, `corpus_sha256` and `questions` together")
    facts = invented_facts(people=people)
    passages = read_corpus(Path(corpus), sha256=corpus_sha256) if corpus else corpus_of(facts)
    index = open_index(passages, top_k=top_k, sha256=index_sha256)
    reference = _searcher(form)
    tag = "answer" if form == "tags" else ""

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        if questions:
            source = import_questions(
                Path(questions),
                format=cast("QuestionFormat", questions_format),  # Another one is refused there, in a sentence.
                sha256=questions_sha256,
                license=questions_license,
            )
            return (stratum_of(source, 1.0),)
        return question_strata(facts, sizes, seed=seed)

    return World(
        environment=_environment(index, form, max_searches, reference),
        tasks=tasks,
        parts=(
            Part(verifier=text_match_verifier(TextMatchRule(answer_tag=tag), name="exact_match")),
            Part(verifier=text_match_verifier(TextMatchRule(metric="f1", answer_tag=tag), name="f1"), weight=0.0),
        ),
        reference=reference,
        attacks={
            "all passages": _answers(passages_text(passages.documents), form),
            "every name": _answers(_every_name(passages, facts), form),
            "the question": _the_question(form),
        },
        spoken=tuple(f"[1] {document.title}: {document.text}" for document in passages.documents[:200]),
        snapshot=index.sha256,
    )


def _environment(index: PassageIndex, form: str, max_searches: int, reference: DemonstrateFn) -> Environment:
    if form == "tags":
        return TagSearchEnvironment(index, limits=SearchLimits(searches=max_searches), demonstrate=reference)
    return ToolEnvironment(
        name="search",
        tools=[search_tool(index)],
        limits=ToolLimits(calls=max_searches, result_characters=1200),
        demonstrate=reference,
    )


def _searcher(form: str) -> DemonstrateFn:
    """Asks what the task's `queries` say, then answers."""

    def turns(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        payload = payload_of(task)
        queries = payload.info.get("queries")
        asked = [str(query) for query in queries] if isinstance(queries, Sequence) and queries else [payload.answer]
        return (*(_search(query, form) for query in asked), _answer(payload.answer, form))

    return turns


def _answers(text: str, form: str) -> DemonstrateFn:
    def turns(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return (_answer(text.replace("\n", " "), form),)

    return turns


def _the_question(form: str) -> DemonstrateFn:
    def turns(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return (_answer(payload_of(task).messages[-1].text, form),)

    return turns


def _every_name(passages: Corpus, facts: Facts) -> str:
    towns = {town.region for town in facts.towns} | {town.river for town in facts.towns}
    return ", ".join([*(document.title for document in passages.documents), *sorted(towns)])[:1900]


def _search(query: str, form: str) -> DemonstratedTurn:
    if form == "tags":
        return DemonstratedTurn(text=f"<search> {query} </search>")
    request = ToolRequest(call_id="c0", tool="search", arguments=canonical_json({"query": query}))
    return DemonstratedTurn(text="", calls=(request,))


def _answer(value: str, form: str) -> DemonstratedTurn:
    return DemonstratedTurn(text=f"<answer> {value} </answer>" if form == "tags" else f"answer: {value}")
