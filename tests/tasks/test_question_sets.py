"""Question sets of public formats: read as they are, under a digest and a license, or not at all."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from rollwright.tasks import QUESTION_FORMATS, TaskError, import_questions, payload_of

FOLDER = Path(__file__).parents[1] / "data" / "question_sets"
FILES = {path.stem: path for path in FOLDER.iterdir() if path.suffix != ".md"}
EXPECTED = {
    "nq_open": (2, ["Kelborough", "the town of Kelborough"], "nq_open"),
    "flashrag": (1, ["Draunor", "River Draunor"], "flashrag"),
    "hotpotqa": (2, ["Upper Sall"], "hotpotqa_bridge"),
    "triviaqa": (1, ["Draunor", "River Draunor", "The Draunor"], "triviaqa"),
    "popqa": (1, ["botanist", "plant scientist"], "popqa"),
    "2wiki": (1, ["Kelborough"], "2wiki_compositional"),
    "musique": (1, ["Draunor", "River Draunor"], "musique_2hop"),
    "bamboogle": (1, ["Ilse Marwen"], "bamboogle"),
    "deepsearchqa": (1, ["Kelborough"], "deepsearchqa"),
}


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(name: Any, **changed: Any):
    arguments: dict[str, Any] = {
        "format": name,
        "sha256": sha256_of(FILES[name]),
        "license": "LicenseRef-own",
        "held_out_share": 0,
    }
    return import_questions(FILES[name], **{**arguments, **changed})


def test_there_is_a_sample_of_every_format():
    assert set(FILES) == set(QUESTION_FORMATS) == set(EXPECTED)


@pytest.mark.row("S430", "S431", "S432")
@pytest.mark.parametrize("name", QUESTION_FORMATS)
def test_a_format_gives_questions_with_all_their_answers_and_a_versioned_source(name):
    count, answers, kind = EXPECTED[name]
    source = read(name)
    assert len(source.train) == count
    first = payload_of(source.train[0])
    assert first.info["answers"] == answers
    assert first.answer == answers[0]
    assert first.info["slice"] == kind
    assert source.revision == f"{name}:{sha256_of(FILES[name])[:16]}:LicenseRef-own"


def test_supporting_titles_are_kept_once_each():
    assert payload_of(read("hotpotqa").train[0]).info["supporting"] == ["Mira Tolven", "Kelborough"]


@pytest.mark.row("S430", "S431", "S432")
@pytest.mark.parametrize("name", QUESTION_FORMATS)
def test_another_file_or_license_is_refused(name):
    with pytest.raises(TaskError, match="it is another file than was named"):
        read(name, sha256="0" * 64)
    with pytest.raises(TaskError, match="license 'unknown' is none of Apache-2.0"):
        read(name, license="unknown")


def test_rows_that_do_not_fit_are_named(tmp_path):
    bad: dict[Any, tuple[str, str]] = {
        "nq_open": ('{"question": "q", "answer": []}\n[1]\n', "row 1: .*has no answer; row 2: it is no object"),
        "musique": ('{"question": "q", "answer": "a", "answerable": false}', "row 1: .*not answerable"),
        "deepsearchqa": ('{"problem": "q", "answer": "a, b", "answer_type": "Set Answer"}', "row 1: .*single answers"),
        "popqa": ('{"question": "q", "possible_answers": "[no"}', "row 1: .*no JSON list"),
        "triviaqa": ('{"Question": "q", "Answer": "a"}', "row 1: `Answer` must be an object"),
        "hotpotqa": ("not json", "neither JSON nor JSON lines"),
        "bamboogle": ("", "holds no question"),
    }
    for name, (text, message) in bad.items():
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(TaskError, match=message):
            import_questions(path, format=name, sha256=sha256_of(path), license="MIT")
    with pytest.raises(TaskError, match="cannot read the questions"):
        import_questions(tmp_path / "none", format="nq_open", sha256="", license="MIT")
