"""`check` finds what a careful forger changed, who mended the digests of files, commits and their chain behind him."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import check
from rollwright.evidence.checking import Finding
from tests.evidence.forging import Row, edit_commit, forge

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"


@pytest.fixture
def run(tmp_path) -> Path:
    shutil.copytree(RUNS / "before", tmp_path / "run")
    return tmp_path / "run"


def first(wanted: Callable[[Row], bool], change: Callable[[Row], object]) -> Callable[[list[Row]], bool]:
    def changed(rows: list[Row]) -> bool:
        row = next((row for row in rows if wanted(row)), None)
        if row is not None:
            change(row)
        return row is not None

    return changed


def item(column: str, place: int, value: Callable[[float], float]) -> Callable[[Row], None]:
    def change(row: Row) -> None:
        values = list(row[column])
        values[place] = value(values[place])
        row[column] = values

    return change


def runs_times(column: str, factor: float) -> Callable[[Row], None]:
    return lambda row: row.update({column: {"n": row[column]["n"], "v": [v * factor for v in row[column]["v"]]}})


def is_policy(row: Row) -> bool:
    return row["origin"] == "policy" and len(row["token_ids"]) > 3


def moved(row: Row) -> bool:
    return row["num_kept"] > 2 and row["influence"] > 0 and row["component"] == "policy_gradient"


def a_train(row: Row) -> bool:
    return row["trajectory_id"][0] == "t"


def doubled(rows: list[Row]) -> bool:
    found = [row for row in rows if moved(row)]
    rows.extend(dict(row) for row in found[:1])
    return bool(found)


def dropped(rows: list[Row]) -> bool:
    found = [row for row in rows if moved(row)]
    if found:
        rows.remove(found[0])
    return bool(found)


def result_of(text: str) -> Callable[[Row], None]:
    raw = text.encode()
    return lambda row: row.update(result=text, result_sha256=hashlib.sha256(raw).hexdigest(), result_bytes=len(raw))


FORGERIES = {
    "a token of a call": (
        "segments",
        first(lambda r: is_policy(r) and r["finish"] == "tool_call", item("token_ids", 12, lambda v: v + 1)),
        "the turn that asked",
    ),
    "a token of an observation": (
        "segments",
        first(lambda r: r["origin"] == "tool", item("token_ids", 0, lambda v: 20 if v != 20 else 21)),
        "the tokens that answer",
    ),
    "a token of a prompt": (
        "segments",
        first(lambda r: r["origin"] == "task" and a_train(r), item("token_ids", 2, lambda v: v + 1)),
        "its prompt differs",
    ),
    "a shifted behavior log-probability": (
        "segments",
        first(lambda r: is_policy(r) and a_train(r), item("behavior_logprobs", 1, lambda v: v - 0.01)),
        "under equal weights",
    ),
    "a log-probability above 0": (
        "segments",
        first(is_policy, item("behavior_logprobs", 1, lambda _: 0.5)),
        "behavior_logprobs holds 0.5",
    ),
    "an older version": (
        "segments",
        first(lambda r: is_policy(r) and a_train(r), lambda r: r.update(policy_version=r["policy_version"] - 1)),
        "trained tokens of policy version",
    ),
    "a temperature": (
        "segments",
        first(is_policy, lambda r: r.update(sampling={**r["sampling"], "temperature": 0.5})),
        "sampled with",
    ),
    "a mask over what the policy wrote": (
        "segments",
        first(lambda r: is_policy(r) and a_train(r), lambda r: r.update(origin="environment")),
        "it weighs tokens of origin environment",
    ),
    "a start": (
        "segments",
        first(lambda r: r["segment"] == 3, lambda r: r.update(start=r["start"] + 1)),
        "it starts at",
    ),
    "a parent": ("segments", first(lambda r: r["segment"] == 3, lambda r: r.update(parent=3)), "parent is 3"),
    "a reward": (
        "trajectories",
        first(lambda r: r["reward"] == 0, lambda r: r.update(reward=1.0)),
        "reward is 1",
    ),
    "a reward with its part": (
        "trajectories",
        first(
            lambda r: r["reward"] == 0,
            lambda r: r.update(reward=1.0, reward_components=[{**c, "value": 1.0} for c in r["reward_components"]]),
        ),
        "part exact of its reward is 1.0",
    ),
    "a weight of a part": (
        "trajectories",
        first(
            lambda r: r["reward"] is not None,
            lambda r: r.update(reward_components=[{**c, "weight": 0.5} for c in r["reward_components"]]),
        ),
        "has weight 0.5",
    ),
    "a count": ("trajectories", first(a_train, lambda r: r.update(num_tokens=r["num_tokens"] + 1)), "num_tokens is"),
    "a seed": ("trajectories", first(a_train, lambda r: r.update(reset_seed=1)), "reset_seed is 1"),
    "a task": ("trajectories", first(a_train, lambda r: r.update(task_id="arithmetic/0")), "task"),
    "a verdict": (
        "verdicts",
        first(lambda r: r["verifier"] == "exact" and r["value"] == 0, lambda r: r.update(value=1.0)),
        "what the verifier said",
    ),
    "a verifier's revision": (
        "verdicts",
        first(lambda r: r["verifier"] == "exact", lambda r: r.update(verifier_revision="0" * 16)),
        "verifier_revision is",
    ),
    "a tool's answer": ("tool_calls", first(lambda r: r["status"] == "ok", result_of("999")), '"999"'),
    "a tool's arguments": (
        "tool_calls",
        first(lambda r: r["status"] == "ok", lambda r: r.update(arguments='{"expression": "1+1"}')),
        "the turn that asked",
    ),
    "an advantage": ("receipts", first(moved, runs_times("advantage", 2)), "influence is"),
    "an advantage with its influence": (
        "receipts",
        first(
            moved,
            lambda r: (runs_times("advantage", 2)(r), r.update(influence=2 * r["influence"], loss=2 * r["loss"])),
        ),
        "policy/loss",
    ),
    "a weight": ("receipts", first(moved, runs_times("token_weight", 2)), "its weight is"),
    "a correction": (
        "receipts",
        first(moved, lambda r: r.update(correction={"n": [r["num_eligible"]], "v": [0.5]})),
        "influence is",
    ),
    "a shifted proximal log-probability": (
        "receipts",
        first(moved, item("proximal_logprobs", 1, lambda v: v - 0.01)),
        "nats apart",
    ),
    "a receipt twice": ("receipts", doubled, "the key stands 2 times"),
    "a receipt less": ("receipts", dropped, "it has no receipt"),
    "a count of kept tokens": ("receipts", first(moved, lambda r: r.update(num_kept=1)), "num_kept is 1"),
    "a lag": ("receipts", first(moved, lambda r: r.update(lag=1)), "lag is 1"),
    "a state of the ledger": (
        "ledger",
        first(lambda r: r["state"] == "trained", lambda r: r.update(state="filtered", rule="zero_contrast")),
        "no slot of the ledger was trained with it",
    ),
    "a metric": (
        "metrics",
        first(lambda r: r["name"] == "reward/total" and r["value"], lambda r: r.update(value=r["value"] + 0.1)),
        "of the rows of the run",
    ),
    "a success": (
        "evaluations",
        first(lambda r: r["metric"] == "success", lambda r: r.update(value=0.99, high=1.0)),
        "of its episodes",
    ),
    "a task's payload": (
        "tasks",
        first(lambda _: True, lambda r: r.update(payload=r["payload"].replace('"answer":"', '"answer":"1'))),
        "its id is not the digest of its payload",
    ),
    "an observation called something else": (
        "segments",
        first(lambda r: r["origin"] == "tool", lambda r: r.update(origin="environment")),
        "and is of origin environment",
    ),
}


def told(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{f.place}: {f.text}; {f.expected}" for f in findings]


def test_runs_that_are_sound_have_no_finding():
    for name in ("before", "after"):
        report = check(RUNS / name)
        assert (told(report.findings), report.not_checked) == ([], ())


def test_the_run_with_the_fault_says_which_tokens_of_the_tool_were_weighed():
    findings = [f for f in check(RUNS / "fault").findings if "it weighs tokens of origin tool" in f.text]
    assert findings
    assert all(f.place.startswith("receipts ") and f.expected == "policy of policy only" for f in findings)


@pytest.mark.parametrize("part", range(7))
def test_of_many_changes_by_a_careful_forger_each_is_found(run, part):
    names = list(FORGERIES)[part::7]
    for name in names:
        table, change, _ = FORGERIES[name]
        forge(run, table, change, care="chain")
    lines = told(check(run).findings)
    assert [name for name in names if not any(FORGERIES[name][2] in line for line in lines)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGERIES)
def test_what_a_careful_forger_changed_is_found_alone(run, name):
    table, change, text = FORGERIES[name]
    forge(run, table, change, care="chain")
    findings = check(run).findings
    assert any(text in line for line in told(findings)), told(findings)[:5]
    assert all(f.concern != "files" for f in findings), "every digest was mended"


def test_an_altered_file_is_named_and_so_is_the_row_in_it(run):
    change = first(lambda r: r["origin"] == "tool", item("token_ids", 0, lambda v: 20 if v != 20 else 21))
    path = forge(run, "segments", change, care="careless")
    findings = check(run).findings
    assert [f.place for f in findings if f.concern == "files"] == [path]
    assert any("the tokens that answer" in f.text for f in findings)


def test_a_commit_that_was_mended_breaks_the_chain_behind_it(run):
    change = first(lambda r: r["state"] == "ready", lambda r: r.update(recorded_at=r["recorded_at"].replace(year=2000)))
    forge(run, "ledger", change, care="commit")
    edited = [path for path in (run / "commits").glob("*.json")]
    [finding] = [f for f in check(run).findings if f.concern == "files"] or [None]
    if finding is not None:
        assert "edited or replaced" in finding.text
    else:
        # The last commit has none behind it: only what names it by digest, such as a checkpoint, could tell.
        assert max(edited).name in {path.name for path in edited}


def test_a_missing_file_is_a_loss_and_what_hangs_on_it_is_no_further_finding(run):
    [path] = (run / "segments").glob("000004.parquet")
    path.unlink()
    report = check(run)
    assert [(f.place, f.severity) for f in report.findings] == [("segments/000004.parquet", "loss")]
    assert any("missing files of segments" in sentence for sentence in report.not_checked)


def test_an_edited_manifest_an_edited_recipe_and_a_lost_commit_are_named(run, tmp_path):
    manifest = json.loads((run / "manifest.json").read_bytes())
    manifest["seeds"]["run"] = 99
    (run / "manifest.json").write_text(json.dumps(manifest))
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(recipe.replace("clip_high = 0.2", "clip_high = 0.9"))
    places = {f.place: f for f in check(run).findings}
    assert "edited after the run began" in places["manifest.json"].text
    assert places["recipe.toml"].text == "objective.surrogate.clip_high is 0.9"


def test_a_shard_that_a_commit_lists_with_other_rows_is_named(run):
    def fewer(commit: Row) -> None:
        commit["shards"][0]["num_rows"] -= 1

    edit_commit(run, 4, fewer)
    assert any("as commit 4 says" in f.expected for f in check(run).findings)


def test_the_command_prints_findings_and_fails_with_them(run, capsys):
    assert run_command(["check", str(RUNS / "before"), "--depth", "rows"]) == 0
    assert "sound: 6 commits" in capsys.readouterr().out
    forge(run, "trajectories", first(lambda r: r["reward"] == 0, lambda r: r.update(reward=1.0)))
    assert run_command(["check", str(run), "--depth", "rows", "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["event"] == "finding"
    assert lines[-1]["sound"] is False
    assert lines[-1]["findings"] == len(lines) - 1
