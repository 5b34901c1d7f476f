"""Payloads, splits, JSONL files and reasoning-gym."""

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.record import Message, canonical_json, digest
from rollwright.tasks import (
    GymGenerator,
    Payload,
    SplitSizes,
    TaskError,
    TaskSource,
    fill_splits,
    gym_entries,
    gym_source,
    gym_version,
    is_held_out,
    jsonl_source,
    make_task,
    payload_of,
    question_key,
    read_jsonl,
    slice_of,
)

words = st.text(min_size=1, max_size=20).filter(str.strip)


def asked(question: str, answer: str = "1", **info: str | int) -> Payload:
    return Payload(messages=(Message(role="user", text=question),), answer=answer, info=info)


@given(question=words, answer=words, info=st.dictionaries(words, st.integers() | words, max_size=3))
def test_a_payload_reads_back_as_written(question: str, answer: str, info: dict[str, int | str]) -> None:
    payload = Payload(messages=(Message(role="user", text=question),), answer=answer, info=info)
    task = make_task(payload, source="s", revision="r", split="train")
    assert payload_of(task) == payload
    assert task.payload == canonical_json(json.loads(task.payload))
    assert task.task_id == "s/" + digest(json.loads(task.payload))[:16]


def test_a_conversation_reads_back_as_written() -> None:
    messages = (
        Message(role="system", text="Be short."),
        Message(role="user", text="a"),
        Message(role="assistant", text="b"),
        Message(role="user", text="c"),
    )
    payload = Payload(messages=messages, answer="1", info={})
    assert payload_of(make_task(payload, source="s", revision="r", split="train")) == payload


@pytest.mark.parametrize(
    ("messages", "answer", "sentence"),
    [
        ((), "1", "end with a message of role user"),
        ((Message(role="assistant", text="x"),), "1", "end with a message of role user"),
        ((Message(role="tool", text="x"), Message(role="user", text="y")), "1", "role 'tool'"),
        ((Message(role="user", text="  "),), "1", "question is empty"),
        ((Message(role="user", text="x"),), " ", "answer is empty"),
    ],
)
def test_what_cannot_be_asked_or_graded_is_refused(messages: tuple[Message, ...], answer: str, sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        Payload(messages=messages, answer=answer, info={})


def test_the_question_key_sees_the_question_alone() -> None:
    assert question_key(asked("2+2?", "4")) == question_key(asked("2+2? ", "5", slice="x"))
    assert question_key(asked("2+2?")) != question_key(asked("2+3?"))


def test_a_slice_is_named_by_info_or_by_the_source() -> None:
    assert slice_of(make_task(asked("q", slice="hard"), source="s", revision="r", split="train")) == "hard"
    assert slice_of(make_task(asked("q"), source="s", revision="r", split="train")) == "s"


@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.floats(0.05, 0.9))
def test_splits_are_disjoint_however_often_a_generator_repeats_itself(drawn: list[int], share: float) -> None:
    payloads = [asked(f"What is {n}?", str(n)) for n in drawn]
    if all(is_held_out(p, share) for p in payloads):
        return
    source = fill_splits(payloads, SplitSizes(train=50, held_out=50), name="s", revision="r", share=share)
    train, held_out = ({question_key(payload_of(t)) for t in side} for side in (source.train, source.held_out))
    assert not train & held_out
    assert len(train) == len(source.train)
    assert len(train | held_out) == len(set(drawn))


def test_a_question_stays_on_its_side_when_size_and_order_change() -> None:
    payloads = [asked(f"What is {n}?") for n in range(200)]
    small = fill_splits(payloads[:100], SplitSizes(train=40, held_out=10), name="s", revision="r")
    large = fill_splits(reversed(payloads), SplitSizes(train=400, held_out=400), name="s", revision="r")
    assert not {t.task_id for t in small.train} & {t.task_id for t in large.held_out}
    assert not {t.task_id for t in small.held_out} & {t.task_id for t in large.train}


def test_an_endless_generator_of_few_questions_comes_to_an_end() -> None:
    def few():
        while True:
            yield asked("a?")
            yield asked("b?")
            yield asked("c?")

    source = fill_splits(few(), SplitSizes(train=10, held_out=10), name="s", revision="r", share=0.5)
    assert len(source.train) + len(source.held_out) == 3


def test_a_source_with_a_question_in_both_splits_is_refused() -> None:
    train = make_task(asked("a?", "1"), source="s", revision="r", split="train")
    held_out = make_task(asked("a?", "1", slice="x"), source="s", revision="r", split="held_out")
    with pytest.raises(TaskError, match="trained on as well"):
        TaskSource(name="s", revision="r", train=(train,), held_out=(held_out,))
    with pytest.raises(TaskError, match="twice"):
        TaskSource(name="s", revision="r", train=(train, train), held_out=())


# ---------------------------------------------------------------------------------------------------------------- jsonl


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_jsonl_rows_become_payloads(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rows.jsonl",
        {"prompt": "a?", "answer": "1"},
        "",
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "b?"}], "answer": 2},
        {"prompt": "c?", "answer": "x", "info": {"tolerance": 0.01}},
    )
    first, second, third = read_jsonl(path)
    assert first == asked("a?", "1")
    assert [m.text for m in second.messages] == ["s", "b?"]
    assert second.answer == "2"
    assert third.number("tolerance", 0.0) == 0.01


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("{", "Expecting property name"),
        ("[1]", "not a JSON object"),
        ('{"prompt": "a", "answer": NaN}', "NaN is no JSON number"),
        ({"prompt": "a"}, "`answer` is missing"),
        ({"prompt": "a", "answer": ""}, "answer is empty"),
        ({"prompt": "a", "answer": True}, "`answer` is missing"),
        ({"prompt": "a", "answr": "1"}, "unknown key `answr`; did you mean `answer`"),
        ({"prompt": "a", "answer": "1", "difficulty": 3}, "put it under `info`"),
        ({"answer": "1"}, "exactly one of"),
        ({"prompt": "a", "messages": [], "answer": "1"}, "exactly one of"),
        ({"prompt": ["a"], "answer": "1"}, "`prompt` must be text"),
        ({"messages": "a", "answer": "1"}, "must be a list"),
        ({"messages": [{"role": "user"}], "answer": "1"}, "`role` and `content`"),
        ({"messages": [{"role": "assistant", "content": "x"}], "answer": "1"}, "role user"),
        ({"prompt": "a", "answer": "1", "info": []}, "`info` must be a map"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, row: object, sentence: str) -> None:
    path = written(tmp_path / "rows.jsonl", {"prompt": "fine?", "answer": "1"}, row)
    with pytest.raises(TaskError, match="line 2: .*" + sentence.replace("`", ".")):
        read_jsonl(path)


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"prompt": "a", "answer": "1"}\n{"prompt": "\xff", "answer": "1"}\n')
    with pytest.raises(TaskError, match="line 2: 'utf-8' codec"):
        read_jsonl(path)


def test_all_bad_lines_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", *["x"] * 8)
    with pytest.raises(TaskError, match=r"8 bad lines.*line 5.*and 3 more"):
        read_jsonl(path)


def test_a_missing_or_empty_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="cannot read the tasks in .*gone.jsonl: No such file"):
        read_jsonl(tmp_path / "gone.jsonl")
    with pytest.raises(TaskError, match="holds no task"):
        read_jsonl(written(tmp_path / "empty.jsonl", ""))


def test_one_file_is_split_by_question_and_repeats_are_dropped(tmp_path: Path) -> None:
    rows = [{"prompt": f"q{n}?", "answer": str(n)} for n in range(50)]
    source = jsonl_source(written(tmp_path / "pool.jsonl", *rows, *rows), share=0.3)
    assert source.name == "pool"
    assert len(source.train) + len(source.held_out) == 50
    assert 5 <= len(source.held_out) <= 25
    assert source.revision.startswith("jsonl:")


def test_a_held_out_row_that_trains_as_well_is_refused(tmp_path: Path) -> None:
    train = written(tmp_path / "train.jsonl", {"prompt": "a?", "answer": "1"}, {"prompt": "b?", "answer": "1"})
    held_out = written(tmp_path / "test.jsonl", {"prompt": "b?", "answer": "1", "info": {"from": "elsewhere"}})
    with pytest.raises(TaskError, match="1 held-out questions are trained on"):
        jsonl_source(train, held_out)


def test_a_changed_file_has_another_revision(tmp_path: Path) -> None:
    one = jsonl_source(written(tmp_path / "a.jsonl", {"prompt": "a?", "answer": "1"}), share=1e-9)
    two = jsonl_source(written(tmp_path / "a.jsonl", {"prompt": "a?", "answer": "2"}), share=1e-9)
    assert one.revision != two.revision


# -------------------------------------------------------------------------------------------------------- reasoning-gym


def test_equal_generators_give_equal_problems_and_another_seed_gives_others() -> None:
    one, again, other = (
        [e.question for e in islice(gym_entries(GymGenerator(name="gcd", seed=seed)), 20)] for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other


def test_problems_go_on_past_a_block_without_repeating_it() -> None:
    entries = list(
        islice(gym_entries(GymGenerator(name="products", parameters={"min_digits": 4, "max_digits": 5})), 2000)
    )
    assert len({e.question for e in entries}) > 1900


def test_a_gym_source_keeps_held_out_questions_out_of_training() -> None:
    # Sums of two digits: 200 questions, so the generator repeats each many times.
    generator = GymGenerator(name="chain_sum", parameters={"max_terms": 2, "max_digits": 1})
    source = gym_source(generator, SplitSizes(train=1000, held_out=1000))
    train, held_out = ({question_key(payload_of(t)) for t in side} for side in (source.train, source.held_out))
    assert len(train | held_out) == 200
    assert not train & held_out
    assert source.name == "chain_sum"
    assert gym_version() in source.revision
    payload = payload_of(source.train[0])
    assert "source_index" not in json.dumps(payload.info["metadata"])


def test_an_unknown_generator_or_parameter_is_one_sentence() -> None:
    with pytest.raises(TaskError, match="refuses generator 'no_such'"):
        next(gym_entries(GymGenerator(name="no_such")))
    with pytest.raises(TaskError, match="'min_digit'"):
        next(gym_entries(GymGenerator(name="products", parameters={"min_digit": 2})))
    with pytest.raises(TaskError, match="min_digits must be positive"):
        next(gym_entries(GymGenerator(name="products", parameters={"min_digits": 0})))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (r'{"prompt": "a \ud800", "answer": "1"}', r"half of a surrogate pair, \\ud800"),
        (r'{"prompt": "a", "answer": "\udfff"}', r"half of a surrogate pair, \\udfff"),
        (r'{"prompt": "a", "answer": "1", "info": {"a": ["\ud83d"]}}', "half of a surrogate pair"),
        ('{"prompt": "a", "answer": "1", "info": {"a": 1e400}}', ""),
        ('{"prompt": "a", "answer": 1e400}', ""),
    ],
)
def test_what_cannot_be_hashed_or_stored_is_named_by_file_and_line(tmp_path: Path, row: str, says: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"prompt": "q", "answer": "1"}\n' + row + "\n")
    with pytest.raises(TaskError, match=rf"tasks\.jsonl: 1 bad lines\. line 2: .*{says}"):
        jsonl_source(path)


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"prompt": "q", "answer": "1"}\n')
    assert [payload.answer for payload in read_jsonl(path)] == ["1"]
