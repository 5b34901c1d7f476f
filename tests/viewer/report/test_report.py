"""A report of real, small, live, hostile and damaged runs: what is in it, what it never needs, what it refuses."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import Difference, NotARunError, RunFolder, SchemaVersionError, SegmentSection
from rollwright.viewer.errors import ViewerError
from rollwright.viewer.report import build_document, read_runs, write_report
from rollwright.viewer.report.drawing import draw_svg
from rollwright.viewer.report.markdown import render_markdown
from tests.evidence.runs import START, evaluation, manifest, trained_step, written_run
from tests.viewer.page.browser import Watch, browser, needs_browser
from tests.viewer.page.hostile_run import hostile_run
from tests.viewer.report.runs import Shape, changed, of_manifest, written

RECORDED = Path(__file__).parents[2] / "data" / "runs" / "after"
PARTS = [
    "What this report is of",
    "What may be said",
    "What is not claimed, and what it lacks",
    "Held out",
    "Learning",
    "Policy",
    "Staleness and mismatch",
    "Data, ledger and exclusions",
    "Tools",
    "Systems",
    "Gates, alarms, events",
    "Configuration",
]
FIGURES = [
    "Held-out success over step",
    "Held-out success over training episodes",
    "Held-out success over action tokens of training episodes",
    "Held-out success over time of the steps, evaluations left out",
    "pass@k beside pass@1",
    "Training reward",
    "Reward by component, before its weight",
    "Length by correctness",
    "Entropy by stratum",
    "Share of tokens that a clip or a mask took",
    "Trained tokens by age",
    "Age of trained tokens",
    "Tails of the importance ratio",
    "Effective sample size over tokens",
    "Engine against learner at equal weights",
    "Mixture before and after filtering",
    "How attempts ended, by purpose",
    "Calls of tools",
    "Calls that went wrong",
    "Busy and idle time by part",
    "Where a step's time goes",
    "Balance of the ledger",
    "What was retried or excluded, and why",
    "Gates and alarms",
]
"""That every report of one run has, drawn or with the reason why not."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """The folder of a report on a recorded run."""
    out = tmp_path_factory.mktemp("recorded")
    write_report([RECORDED], out)
    return out


def markdown_of(*paths: Path) -> str:
    """The text of a report, without its drawings."""
    document, _, _ = build_document(read_runs(paths))
    return render_markdown(document, "figures")


def text_of(out: Path) -> str:
    return (out / "report.md").read_text(encoding="utf-8")


def page_of(out: Path) -> str:
    return (out / "report.html").read_text(encoding="utf-8")


def test_a_report_has_its_parts_in_their_order(recorded):
    assert re.findall(r"^## (.+)$", text_of(recorded), re.MULTILINE) == PARTS
    assert re.findall(r"<h2>(.+?)</h2>", page_of(recorded)) == PARTS
    headings = [line.replace("\\", "") for line in re.findall(r"^### (.+)$", text_of(recorded), re.MULTILINE)]
    assert [title for title in FIGURES if title not in headings] == []


def test_every_figure_and_table_of_a_report_says_where_it_comes_from(recorded):
    text, page = text_of(recorded), page_of(recorded)
    count = len(re.findall(r"^### ", text, re.MULTILINE))
    assert count > 30
    assert text.count("Where this comes from.") == count
    for part in ("protocol: ", "protocol digest: ", "samples: ", "interval: ", "steps: ", "standing: ", "made by: "):
        assert text.count(part) >= count
    assert page.count("<figure id=") == count == page.count("<dt>made by</dt>")


def test_drawings_stand_beside_the_markdown_and_inside_the_page(recorded):
    named = re.findall(r"!\[.*?\]\((.+?)\)", text_of(recorded))
    drawn = sorted(path.relative_to(recorded).as_posix() for path in recorded.glob("figures/*.svg"))
    assert sorted(named) == drawn and len(drawn) > 20
    assert page_of(recorded).count("<svg ") == len(drawn)
    for path in recorded.glob("figures/*.svg"):
        svg = path.read_text(encoding="utf-8")
        assert "<dc:date>" not in svg and "matplotlib.org" not in svg


def test_the_page_runs_nothing_and_asks_nobody(recorded):
    page = page_of(recorded)
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page and "@import" not in page and " src=" not in page
    assert set(re.findall(r'(?:href|xlink:href)="([^#"][^"]*)"', page)) == set()
    assert set(re.findall(r"url\(([^#)][^)]*)\)", page)) == set()


def test_ids_of_a_page_stand_once(recorded):
    ids = re.findall(r'\bid="([^"]+)"', page_of(recorded))
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page_of(recorded)))
    assert referred <= set(ids)


def test_the_same_folder_gives_the_same_bytes_and_nothing_is_written_into_it(tmp_path):
    run = written(tmp_path / "run", Shape())
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    old = tmp_path / "again" / "figures" / "of-an-older-report.svg"
    old.parent.mkdir(parents=True)
    old.write_text("<svg/>")
    (tmp_path / "again" / "report.md").write_text("![was](figures/of-an-older-report.svg)")
    write_report([run], tmp_path / "one")
    write_report([run], tmp_path / "again")
    assert not old.exists()
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(files) > 5
    assert files == sorted(path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*.*"))
    for name in files:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "one" / name).read_bytes(), name


def test_several_runs_begin_with_what_differs_and_are_drawn_over_each_other(tmp_path):
    paths = [written(tmp_path / f"seed{seed}", Shape(seed=seed)) for seed in range(3)]
    text = markdown_of(*paths)
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert parts[:3] == ["How the runs differ", "Curves over each other", "Paired comparison and seeds"]
    assert "| seed1 | configuration.run.seed | 0 | 1 |" in text
    # Same tasks, same outcomes: no difference, and Wilson's bound on how many of 12 tasks may differ.
    assert "| seed1 | seed0 | held-out | 2 and 2 | 0 | -0.2425 | 0.2425 | wilson at 0.95 | 12 |" in text.replace(
        "\\", ""
    )
    assert "seed0 to seed2 (3 runs that differ in the seed)" in text
    assert "crossed\\_bootstrap at 0.95" in text
    document, _, _ = build_document(read_runs(paths))
    [first] = [figure for figure in document.figures if figure.slug == "held-out-success-over-step"]
    svg = draw_svg(first)
    assert all(f"seed{seed} (n 12)" in svg for seed in range(3))


def test_runs_of_one_name_are_told_apart(tmp_path):
    paths = [written_run(tmp_path / place / "run", steps=1) for place in ("a", "b")]
    stored = paths[1] / "manifest.json"
    tree = json.loads(stored.read_text())
    stored.write_text(json.dumps(tree | {"run": tree["run"] | {"run_id": "another"}}))
    assert [run.numbers.name for run in read_runs(paths)] == ["run", "run (2)"]


def test_a_folder_given_twice_is_refused(tmp_path):
    run = written_run(tmp_path / "run", steps=1)
    with pytest.raises(ViewerError, match="given twice"):
        write_report([run, tmp_path / "." / "run"], tmp_path / "out")


def test_a_copy_of_a_run_is_refused_beside_it(tmp_path):
    run = written_run(tmp_path / "run", steps=1)
    shutil.copytree(run, tmp_path / "copy")
    with pytest.raises(ViewerError, match="is a copy of"):
        write_report([run, tmp_path / "copy"], tmp_path / "out")


@pytest.mark.parametrize("place", ["run", "run/reports"])
def test_nothing_is_written_into_a_run(tmp_path, place):
    run = written_run(tmp_path / "run", steps=1)
    with pytest.raises(ViewerError, match="into which nothing is written.*--out"):
        write_report([run], tmp_path / place)
    assert not (run / "report.md").exists()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(ViewerError, match="--out"):
        write_report([written_run(tmp_path / "run", steps=1)], tmp_path / place)


def test_a_live_run_is_reported_as_far_as_it_is_committed(tmp_path):
    with RunFolder.create(tmp_path / "live", manifest(), "[run]\n") as folder:
        empty = markdown_of(tmp_path / "live")
        folder.commit(evaluation(0), at=START)
        folder.commit(trained_step(1), at=START)
        text = markdown_of(tmp_path / "live")
    assert "The run is being written" in text and "last step 1" in text
    assert "not evaluated" in empty and "none trained yet" in empty and "![" not in empty


def test_a_run_of_one_step_without_evaluation_says_what_it_lacks(tmp_path):
    with RunFolder.create(tmp_path / "run", manifest(), "[run]\n") as folder:
        folder.commit(trained_step(1), at=START)
    text = markdown_of(tmp_path / "run")
    assert "The run was not evaluated" in text and "this run was not evaluated" in text
    assert "Nothing: no claim" in text or "The experiment reports" in text


@pytest.mark.parametrize("retention", ["runs", "sums"])
def test_what_the_retention_dropped_is_said(tmp_path, retention):
    text = markdown_of(written_run(tmp_path / "run", receipts=retention))
    assert f"Receipts were kept as {retention}: ratios and losses cannot be recomputed." in text


def test_a_run_of_several_segments_says_why_and_what_changed(tmp_path):
    with RunFolder.create(tmp_path / "run", manifest(), "[run]\n") as folder:
        folder.commit(evaluation(0), at=START)
        folder.commit(trained_step(1), at=START)
        change = Difference(path="run.code_sha256", stored="0", now="1", effect="segment")
        section = SegmentSection(
            number=2,
            reason="a fault of the loss was mended",
            opened_at=START,
            after_step=1,
            previous_sha256=folder.newest_manifest_sha256,
            differences=(change,),
        )
        folder.open_segment(dataclasses.replace(manifest(), segment=section))
        folder.commit(trained_step(2), at=START)
    text = markdown_of(tmp_path / "run")
    assert "The run has 2 segments" in text
    assert "Segment 2 after step 1, because: a fault of the loss was mended. run.code\\_sha256 was 0 and is 1" in text


def test_steps_that_a_resume_took_back_are_in_no_figure(tmp_path):
    run = written_run(tmp_path / "run", steps=3)
    with RunFolder.open(run, "write") as folder:
        folder.abandon_after(folder.commits[1].number)
    [read] = read_runs([run])
    assert read.numbers.last_step == 1 and max(cost.step for cost in read.numbers.costs) == 1


def test_a_supervised_run_is_measured_from_its_start(tmp_path):
    run = written(tmp_path / "run", Shape())
    [read] = read_runs([run])
    [stage] = read.numbers.manifest.algorithm
    supervised = of_manifest(read, algorithm=(dataclasses.replace(stage, estimator="supervised"),))
    document, _, _ = build_document([changed(supervised, slots=(), tools=())])
    text = render_markdown(document, "figures")
    assert "+0.750" in text and "demonstrations have no ledger row" in text


# ------------------------------------------------------------------------------------------------------------- refusals


def test_a_damaged_run_is_refused_with_the_way_to_look_closer(tmp_path):
    run = written_run(tmp_path / "run", steps=1)
    shard = sorted(run.glob("metrics/*.parquet"))[0]
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ViewerError, match=r"damaged, and no report is made of it.*rollwright check"):
        write_report([run], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_altered_byte_is_found(tmp_path):
    run = written_run(tmp_path / "run", steps=1)
    shard = sorted(run.glob("trajectories/*.parquet"))[0]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(bytes(content))
    with pytest.raises(ViewerError, match="damaged"):
        write_report([run], tmp_path / "out")


def test_a_torn_commit_is_damage(tmp_path):
    run = written_run(tmp_path / "run", steps=2)
    commit = sorted(run.glob("commits/*.json"))[-1]
    commit.write_text(commit.read_text()[:40])
    with pytest.raises(ViewerError, match=r"damaged.*rollwright check"):
        write_report([run], tmp_path / "out")


def test_what_is_no_run_or_of_another_schema_is_said_as_everywhere(tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(NotARunError):
        write_report([tmp_path / "nothing"], tmp_path / "out")
    run = written_run(tmp_path / "run", steps=1)
    content = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(content | {"schema_version": 99}))
    with pytest.raises(SchemaVersionError):
        write_report([run], tmp_path / "out")


# ------------------------------------------------------------------------------------------------------ hostile content


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    """A report on two runs whose names, tools, tasks, gates and events try to harm who reads it."""
    folder = tmp_path_factory.mktemp("hostile")
    run = hostile_run(folder)
    other = written(folder / "прогон 計算 $\\frac{1}{0}$", Shape(tool="<script>x</script>|_", source="![i](x) | _s"))
    write_report([run], folder / "one")
    write_report([run, other], folder / "two")
    return folder


@pytest.mark.parametrize("which", ["one", "two"])
def test_hostile_text_is_text_in_page_markdown_and_drawings(hostile, which):
    page, text = page_of(hostile / which), text_of(hostile / which)
    # Outside of text, that is inside of a tag, stand no handler and no element but the report's own.
    tags = re.findall(r"<[^>]*>", page)
    assert {name for tag in tags for name in re.findall(r"^<(\w+)", tag)}.isdisjoint({"script", "img", "b", "iframe"})
    assert not any(re.search(r"\son\w+\s*=", tag) for tag in tags)
    assert not re.search(r"(?<!\\)<(?!sub>|/sub>|a id=|/a>)", text)
    assert not re.search(r"(?<!\\)!\[(?!.*\]\(figures/)", text)
    for shown in (page, text):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\u2066]", shown)
    for svg in (hostile / which / "figures").glob("*.svg"):
        assert "<script" not in svg.read_text(encoding="utf-8")


def test_every_row_of_a_markdown_table_keeps_its_number_of_cells(hostile):
    for block in re.findall(r"(?:^\|.*\n)+", text_of(hostile / "two"), re.MULTILINE):
        rows = [re.sub(r"\\.", "", line).count("|") for line in block.splitlines()]
        assert len(set(rows)) == 1


def test_names_in_any_script_are_shown_as_they_are(hostile):
    assert "прогон 計算" in page_of(hostile / "two") and "прогон 計算" in text_of(hostile / "two")


# ------------------------------------------------------------------------------------------------- command and browser


def test_the_command_writes_where_it_is_told_counts_its_claims_and_takes_its_earlier_drawings_away(tmp_path, capsys):
    run, out = written_run(tmp_path / "run", steps=1), tmp_path / "out"
    (out / "figures").mkdir(parents=True)
    for name in ("mine.svg", "earlier.svg"):
        (out / "figures" / name).touch()
    (out / "report.md").write_text("![was](figures/earlier.svg)", encoding="utf-8")
    assert run_command(["report", str(run), "--out", str(out), "--json"]) == 0
    assert (out / "figures" / "mine.svg").exists()
    assert not (out / "figures" / "earlier.svg").exists()
    said = json.loads(capsys.readouterr().out)
    assert Path(said["html"]).is_file() and Path(said["markdown"]).is_file()
    assert said["claimed"] + said["not_claimed"] == 17


def test_the_command_says_damage_in_one_sentence(tmp_path, capsys):
    run = written_run(tmp_path / "run", steps=1)
    next(iter(sorted(run.glob("ledger/*.parquet")))).unlink()
    assert run_command(["report", str(run), "--out", str(tmp_path / "out")]) == 1
    assert "rollwright check" in " ".join(capsys.readouterr().err.split())


def test_without_out_one_run_is_written_below_reports_by_its_name(tmp_path, monkeypatch):
    run = written_run(tmp_path / "run", steps=1)
    monkeypatch.chdir(tmp_path)
    assert run_command(["report", "run"]) == 0
    assert (tmp_path / "reports" / "run" / "report.html").is_file()
    assert run.is_dir()


@pytest.mark.slow
@needs_browser
def test_the_page_opens_in_a_browser_in_both_themes_without_a_word_or_a_request(recorded, hostile):
    with browser() as chromium:
        for scheme, ink in (("light", "rgb(22, 24, 29)"), ("dark", "rgb(230, 233, 238)")):
            context = chromium.new_context(viewport={"width": 900, "height": 900}, color_scheme=scheme)
            for out in (recorded, hostile / "two"):
                page, watch = context.new_page(), Watch(home="file://")
                watch.follow(page)
                page.goto((out / "report.html").resolve().as_uri())
                watch.assert_clean()
                assert page.evaluate("window.harmed") is None
                assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
                assert page.locator("figure svg text").first.evaluate("e => getComputedStyle(e).fill") == ink
            context.close()
