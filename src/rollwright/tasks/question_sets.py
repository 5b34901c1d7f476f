"""Open-domain question sets from files of this machine, in the shapes in which they are published.

    source = import_questions(Path("nq.jsonl"), format="nq_open", sha256="…", license="CC-BY-SA-3.0")

Nothing is downloaded. A file is taken under the digest and the license that a person states: another file, or a license
that is not among those that allow training, is refused.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast

from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import HELD_OUT, TRAIN, Json, Payload, is_held_out, make_task, question_key, read_json
from rollwright.tasks.questions import question_payload
from rollwright.tasks.source import HELD_OUT_SHARE, Provenance, TaskSource

__all__ = ["LICENSES", "QUESTION_FORMATS", "QuestionFormat", "import_questions"]

QuestionFormat = Literal[
    "nq_open", "hotpotqa", "triviaqa", "popqa", "2wiki", "musique", "bamboogle", "deepsearchqa", "flashrag"
]
LICENSES = frozenset(
    {
        "Apache-2.0",
        "CC-BY-3.0",
        "CC-BY-4.0",
        "CC-BY-SA-3.0",
        "CC-BY-SA-4.0",
        "CC0-1.0",
        "MIT",
        "ODC-By-1.0",
        "LicenseRef-own",
    }
)
"""SPDX identifiers under which rows may be trained on; `LicenseRef-own` is for what you wrote yourself."""
_SHOWN = 5
Row = Mapping[str, Json]


def import_questions(
    path: Path, *, format: QuestionFormat, sha256: str, license: str, held_out_share: float = HELD_OUT_SHARE
) -> TaskSource:
    """Read a question set as a versioned source.

    Args:
        path: JSON lines, a JSON list, or an object whose `Data` is a list.
        format: the shape of its rows, one of `QUESTION_FORMATS`.
        sha256: of the file; part of the revision.
        license: SPDX identifier, one of `LICENSES`; part of the revision.
        held_out_share: of the questions; 1 for a set that only evaluates would leave nothing to train, so at most 0.9.

    Raises:
        TaskError: for another file, another license, and rows that do not fit, by number.
    """
    if format not in _READERS:
        raise TaskError(f"no question format {format!r}; there are {', '.join(QUESTION_FORMATS)}")
    if license not in LICENSES:
        raise TaskError(f"license {license!r} is none of {', '.join(sorted(LICENSES))}; look it up, and state it")
    raw = _bytes_of(path)
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise TaskError(f"{path} has sha256 {found}, not {sha256 or 'none'}; it is another file than was named")
    if not 0 <= held_out_share <= 0.9:
        raise TaskError(f"held_out_share is {held_out_share}; allowed are 0 to 0.9")
    source = _source(_payloads(raw, format, path), f"{format}:{found[:16]}:{license}", format, held_out_share)
    return replace(source, provenance=Provenance(license=license))


def _source(payloads: Sequence[Payload], revision: str, name: str, share: float) -> TaskSource:
    distinct = {question_key(p): p for p in reversed(payloads)}
    tasks = [
        make_task(p, source=name, revision=revision, split=HELD_OUT if is_held_out(p, share) else TRAIN)
        for p in reversed(distinct.values())
    ]
    return TaskSource(
        name=name,
        revision=revision,
        train=tuple(task for task in tasks if task.split == TRAIN),
        held_out=tuple(task for task in tasks if task.split == HELD_OUT),
    )


def _payloads(raw: bytes, format: QuestionFormat, path: Path) -> Sequence[Payload]:
    read, payloads, faults = _READERS[format], list[Payload](), list[str]()
    for number, row in enumerate(_rows(raw, path), start=1):
        try:
            if not isinstance(row, Mapping):
                raise TaskError("it is no object")
            payloads.append(read(cast("Row", row)))
        except TaskError as error:
            faults.append(f"row {number}: {error}")
    if faults:
        raise TaskError(f"{path} does not fit {format}, {len(faults)} rows: " + "; ".join(faults[:_SHOWN]))
    if not payloads:
        raise TaskError(f"{path} holds no question")
    return payloads


def _rows(raw: bytes, path: Path) -> Sequence[Json]:
    text = raw.decode("utf-8-sig", errors="strict")
    try:
        whole = read_json(text)
    except ValueError:
        whole = None
    if isinstance(whole, Mapping) and isinstance(whole.get("Data"), Sequence):
        return cast("Sequence[Json]", whole["Data"])
    if isinstance(whole, list):
        return whole
    try:
        return [read_json(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise TaskError(f"{path} is neither JSON nor JSON lines: {error}") from error


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read the questions in {path}: {error.strerror}") from error


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"`{key}` must be text that is not empty")
    return value.strip()


def _texts(row: Row, key: str) -> tuple[str, ...]:
    value = row.get(key)
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if not isinstance(value, Sequence):
        raise TaskError(f"`{key}` must be a list of texts")
    return tuple(one for one in value if isinstance(one, str) and one.strip())


def _titles(row: Row) -> tuple[str, ...]:
    """The titles in `supporting_facts`, [[title, sentence], …], each once."""
    facts = row.get("supporting_facts")
    pairs = facts if isinstance(facts, Sequence) and not isinstance(facts, str) else ()
    titles = [pair[0] for pair in pairs if isinstance(pair, Sequence) and pair]
    return tuple(dict.fromkeys(title for title in titles if isinstance(title, str)))


def _nq_open(row: Row) -> Payload:
    return question_payload(_text(row, "question"), _texts(row, "answer"), kind="nq_open")


def _flashrag(row: Row) -> Payload:
    return question_payload(_text(row, "question"), _texts(row, "golden_answers"), kind="flashrag")


def _hotpotqa(row: Row) -> Payload:
    kind = f"hotpotqa_{row.get('type') or 'unknown'}"
    return question_payload(_text(row, "question"), (_text(row, "answer"),), kind=kind, supporting=_titles(row))


def _two_wiki(row: Row) -> Payload:
    kind = f"2wiki_{row.get('type') or 'unknown'}"
    return question_payload(_text(row, "question"), (_text(row, "answer"),), kind=kind, supporting=_titles(row))


def _triviaqa(row: Row) -> Payload:
    answer = row.get("Answer")
    if not isinstance(answer, Mapping):
        raise TaskError("`Answer` must be an object with `Value` and `Aliases`")
    value = _text(cast("Row", answer), "Value")
    aliases = _texts(cast("Row", answer), "Aliases") if "Aliases" in answer else ()
    return question_payload(_text(row, "Question"), tuple(dict.fromkeys((value, *aliases))), kind="triviaqa")


def _popqa(row: Row) -> Payload:
    given = row.get("possible_answers")
    if isinstance(given, str):  # The published table keeps the list as a JSON text.
        try:
            given = read_json(given)
        except ValueError:
            raise TaskError("`possible_answers` is text, but no JSON list") from None
    return question_payload(
        _text(row, "question"), _texts({"possible_answers": given}, "possible_answers"), kind="popqa"
    )


def _musique(row: Row) -> Payload:
    if row.get("answerable") is False:
        raise TaskError("it is marked as not answerable; take the file of answerable questions")
    answers = (_text(row, "answer"), *(_texts(row, "answer_aliases") if "answer_aliases" in row else ()))
    hops = str(row.get("id", "")).split("__")[0] or "unknown"
    return question_payload(_text(row, "question"), tuple(dict.fromkeys(answers)), kind=f"musique_{hops}")


def _bamboogle(row: Row) -> Payload:
    return question_payload(_text(row, "Question"), (_text(row, "Answer"),), kind="bamboogle")


def _deepsearchqa(row: Row) -> Payload:
    kind = _text(row, "answer_type")
    if kind != "Single Answer":
        raise TaskError(f"`answer_type` is {kind!r}; a set of answers is not scored by text match, keep single answers")
    return question_payload(_text(row, "problem"), (_text(row, "answer"),), kind="deepsearchqa")


_READERS: MappingProxyType[str, Callable[[Row], Payload]] = MappingProxyType(
    {
        "nq_open": _nq_open,
        "hotpotqa": _hotpotqa,
        "triviaqa": _triviaqa,
        "popqa": _popqa,
        "2wiki": _two_wiki,
        "musique": _musique,
        "bamboogle": _bamboogle,
        "deepsearchqa": _deepsearchqa,
        "flashrag": _flashrag,
    }
)
QUESTION_FORMATS = tuple(_READERS)
