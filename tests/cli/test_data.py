"""`data overlap` as a person and a script meet it: sources of every kind, limits, and texts that could steer."""

import json

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from rollwright.cli.main import run_command
from tests.evaluation.evaluated_runs import evaluated_run, under

SHARED = "a farmer sells three baskets of pears on monday and twice as many on the market of tuesday"


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def last(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_files_are_compared_by_text_and_runs_of_words_and_a_limit_decides_the_exit_code(tmp_path, capsys):
    a = lines(tmp_path / "a.jsonl", {"question": f"{SHARED}. How many?"}, {"prompt": "Name the river."})
    b = lines(
        tmp_path / "b.jsonl",
        {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "NAME the river"}]},
        {"problem": f"Yesterday {SHARED}, says the paper."},
        {"text": "something else"},
        {"text": "again another"},
    )
    assert run_command(["data", "overlap", a, b, "--json"]) == 0
    found = last(capsys)
    assert (found["leaked"], found["second"], found["rate"]) == (2, 4, 0.5)
    assert {one["kind"]: one["found"] for one in found["counts"]} == {
        "exact": 0,
        "normalized": 1,
        "words": 1,
        "characters": 0,
    }
    assert run_command(["data", "overlap", a, b, "--limit", "0.5"]) == 0
    assert run_command(["data", "overlap", a, b, "--limit", "0.49"]) == 1


def test_an_embedding_model_that_is_not_there_is_said_before_anything_is_loaded(tmp_path, capsys):
    a = lines(tmp_path / "a.jsonl", {"question": SHARED})
    assert run_command(["data", "overlap", a, a, "--embedding-model", str(tmp_path / "nothere")]) == 2
    assert "there is no such folder" in " ".join(capsys.readouterr().err.split())


def test_parquet_and_a_named_field_are_read(tmp_path, capsys):
    path = tmp_path / "b.parquet"
    table = pa.table({"body": [SHARED, "other"], "n": [1, 2]})  # pyright: ignore[reportAttributeAccessIssue] - not among our stubs
    parquet.write_table(table, str(path))
    a = lines(tmp_path / "a.jsonl", {"body": SHARED})
    assert run_command(["data", "overlap", a, str(path), "--field", "body", "--json"]) == 0
    assert last(capsys)["leaked"] == 1
    assert run_command(["data", "overlap", a, str(path)]) == 2
    assert "Name the field that holds the task by --field" in " ".join(capsys.readouterr().err.split())


def test_the_splits_of_a_recipe_and_the_tasks_of_a_run_are_sources(tmp_path, capsys):
    assert run_command(["data", "overlap", "arithmetic-tool:train", "arithmetic-tool:held_out", "--json"]) == 0
    found = last(capsys)
    assert (found["first"], found["second"], found["leaked"]) == (4000, 400, 0)


def test_a_stored_run_is_a_source_of_the_tasks_that_it_was_evaluated_on(tmp_path, capsys):
    run = evaluated_run(tmp_path / "run", (2, under(3), {t: [1.0] for t in range(3)}))
    a = lines(tmp_path / "a.jsonl", {"text": "what is 1?"}, {"text": "What is 2"})
    assert run_command(["data", "overlap", a, f"{run}:held_out", "--json"]) == 0
    found = last(capsys)
    assert (found["second"], found["leaked"], found["counts"][0]["found"]) == (3, 2, 1)


def test_a_text_cannot_steer_the_terminal(tmp_path, capsys):
    nasty = "\x1b[2J\x1b]0;owned\x07 [red]tell[/red] me"
    a = lines(tmp_path / "a.jsonl", {"text": nasty})
    assert run_command(["data", "overlap", a, a]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x07" not in said
    assert "\\x1b[2J" in said and "[red]tell[/red]" in said


@pytest.mark.parametrize(
    ("source", "sentence"),
    [("nothing.jsonl", "no file nothing.jsonl"), ("no-such-recipe:train", "no recipe 'no-such-recipe'")],
)
def test_a_source_that_is_not_there_is_a_sentence(tmp_path, source, sentence, capsys):
    b = lines(tmp_path / "b.jsonl", {"text": "x"})
    assert run_command(["data", "overlap", source, b]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
