"""Every page of a run, as it is answered to a client without a browser."""

import json
import shutil

import pytest

from rollwright.evidence import Event, RunFolder
from tests.evidence.runs import START, evaluation, task, trained_step, written_run
from tests.viewer.page.hostile_run import hostile_run
from tests.viewer.page.pages import OF_A_RUN, Seen, client_of, slug_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return written_run(tmp_path_factory.mktemp("runs") / "run", steps=3)


@pytest.fixture(scope="module")
def client(run):
    return client_of([run])


@pytest.fixture(scope="module")
def answers(client):
    """What each page of the run was answered with, asked once."""
    return {page: client.get(f"/r/run{page}") for page in OF_A_RUN}


@pytest.mark.parametrize("page", OF_A_RUN)
def test_every_page_of_a_run_is_answered_with_its_name_a_heading_and_a_skip_link(answers, page):
    answer = answers[page]
    seen = Seen(answer.text)
    assert answer.status_code == 200
    assert [tag for tag, _ in seen.tags].count("h1") == 1
    assert any(a.get("class") == "skip" and a["href"] == "#main" for tag, a in seen.tags if tag == "a")
    assert any(tag == "html" and a["lang"] == "en" for tag, a in seen.tags)


def test_every_link_of_every_page_leads_somewhere(client, answers):
    texts = [client.get("/").text, *(answer.text for answer in answers.values())]
    links = {link for text in texts for link in Seen(text).links() if link.startswith("/")}
    assert len(links) > 60
    assert {link: code for link in sorted(links) if (code := client.get(link).status_code) != 200} == {}


@pytest.mark.parametrize("page", OF_A_RUN)
def test_nothing_is_fetched_from_elsewhere_and_nothing_is_inline(answers, page):
    for tag, attributes in Seen(answers[page].text).tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("src", "href", "action"):
            assert not attributes.get(name, "/").startswith(("http", "//", "data:", "javascript:"))
        if tag == "script":
            assert "src" in attributes


@pytest.mark.parametrize("page", OF_A_RUN)
def test_tables_have_named_scrolling_regions_and_headings_with_scope_and_fields_have_labels(answers, page):
    tags = Seen(answers[page].text).tags
    assert all(a.get("scope") in ("col", "row") for tag, a in tags if tag == "th")
    assert all(a.get("aria-label") for _, a in tags if a.get("role") == "region")
    for at, (tag, attributes) in enumerate(tags):
        if tag in ("input", "select") and attributes.get("type") != "hidden":
            before = [name for name, _ in tags[max(0, at - 1) : at]]
            assert attributes.get("aria-label") or before == ["label"], attributes


def test_the_list_says_of_each_run_where_it_stands(client):
    text = Seen(client.get("/").text).text
    assert "1 run of" in text
    assert "at rest" in text
    assert "rl: grpo" in text


def test_an_episode_shows_its_tree_its_call_its_verdict_its_receipts_and_its_slot(client):
    text = Seen(client.get("/r/run/episode/t000001-00-0").text).text
    for said in (
        "Context 0",
        "segment 3",
        "calculator",
        '{"expression":"1+1"}',
        "numeric",
        "policy_gradient",
        "in_flight",
    ):
        assert said in text
    assert "answers t000001-00-0/c0" in text


def test_a_token_leads_to_its_receipt_its_update_and_its_step(client):
    links = Seen(client.get("/r/run/episode/t000003-00-0").text).links()
    assert "/r/run/step/2?component=policy_gradient" in links
    step = Seen(client.get("/r/run/step/2?component=policy_gradient").text)
    assert "/r/run/episode/t000003-00-0" in step.links()


def test_a_token_says_its_numbers_without_a_script(client):
    tokens = [a["title"] for _, a in Seen(client.get("/r/run/episode/t000000-00-0").text).tags if a.get("title")]
    first_sampled = tokens[4]
    for said in ("id 5, position 4", "origin: policy", "policy version: 0", "mask: trained", "advantage: 0.5"):
        assert said in first_sampled
    assert "log-probability when sampled: −0.25" in first_sampled
    assert "update ratio: 1" in first_sampled
    assert "weight: 0.05" in first_sampled
    assert "mask: never trained" in tokens[0]


def test_a_task_leads_to_all_its_episodes(client):
    page = Seen(client.get("/r/run/task", params={"id": task(1).task_id}).text)
    [link] = [link for link in page.links() if "/episodes" in link and "task=" in link]
    listed = Seen(client.get(link).text)
    assert {x for x in listed.links() if "/episode/" in x} == {
        "/r/run/episode/t000001-00-0",
        "/r/run/episode/t000001-01-0",
    }


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 13),
        ("purpose=train", 12),
        ("purpose=evaluation", 1),
        ("step=2", 4),
        ("least=0.5", 7),
        ("most=0.5", 6),
        ("least=0.5&most=0.9", 0),
        ("reason=model_end", 13),
        ("reason=turn_limit", 0),
        ("tool=calculator&step=1", 4),
        ("tool=nothing", 0),
        ("group=3&purpose=train", 2),
        ("text=T00000", 12),
        (f"text={task(1).task_id[-8:].upper()}", 2),
        ("source=arithmetic", 13),
        ("source=%27%20OR%201%3D1%20--", 0),
        ("text=%25", 0),
    ],
)
def test_a_filter_leaves_exactly_what_it_says(client, query, count):
    seen = Seen(client.get(f"/r/run/episodes?{query}").text)
    assert len([x for x in seen.links() if "/episode/" in x]) == count
    assert (f"of {count} episodes" in seen.text) == (count > 0)


@pytest.mark.parametrize(
    "query", ["step=x", "least=nan", "most=inf", "group=-1", "purpose=all", "reason=x", "order=reward;DROP", "page=0x1"]
)
def test_a_filter_that_is_not_understood_is_named_and_filters_nothing(client, query):
    seen = Seen(client.get(f"/r/run/episodes?{query}").text)
    assert f"not filtered by: {query.partition('=')[0]}" in seen.text
    assert "of 13 episodes" in seen.text


@pytest.fixture(scope="module")
def long_table(tmp_path_factory):
    """A client of a run with 89 episodes."""
    path = tmp_path_factory.mktemp("long") / "run"
    written_run(path, steps=1)
    with RunFolder.open(path, "write") as folder:
        folder.commit(trained_step(2, groups=40), at=START)
        folder.commit(trained_step(50, groups=2), at=START)
    return client_of([path])


def episodes_on(client, order, page):
    links = Seen(client.get(f"/r/run/episodes?order={order}&page={page}").text).links()
    return [link for link in links if "/episode/" in link]


@pytest.mark.parametrize("order", ["newest", "oldest", "best", "worst", "longest", "shortest", "slowest"])
def test_pages_of_the_table_have_each_episode_once(long_table, order):
    first, second = (episodes_on(long_table, order, page) for page in (1, 2))
    assert (len(first), len(second)) == (50, 39)
    assert len({*first, *second}) == 89
    if order == "newest":
        assert first[0].endswith("t000099-01-0")


@pytest.mark.parametrize("page", [3, 9])
def test_behind_the_last_page_of_the_table_stands_the_last(long_table, page):
    assert episodes_on(long_table, "newest", page) == episodes_on(long_table, "newest", 2)


def test_the_ledger_balances_after_every_step(client):
    seen = Seen(client.get("/r/run/ledger").text)
    assert "dispatched 12" in seen.text
    rows = seen.text[seen.text.index("After each step") :]
    assert "3 0 0 12 0 0 0 0 12" in rows
    assert "1 0 0 4 0 0 0 0 4" in rows


def test_a_curve_comes_as_numbers_with_its_interval(client):
    figure = client.get("/curve.json?run=run&curve=held-out-success").json()
    assert figure["places"] == [0.0]
    assert figure["series"][0]["low"] == [0.5]
    by_seconds = client.get("/curve.json?run=run&curve=metric:step_s&x=episodes").json()
    assert by_seconds["series"][0]["values"] == [1.5, 3.0, 4.5]
    assert by_seconds["places"] == [4.0, 8.0, 12.0]


def test_a_metric_that_the_run_lacks_is_a_figure_that_says_so(client):
    figure = client.get("/curve.json?run=run&curve=metric:policy/kl_ref").json()
    assert figure["series"] == []
    assert "no value of policy/kl_ref" in figure["absent"]


def test_two_runs_are_compared_by_what_differs_first(tmp_path):
    one = written_run(tmp_path / "one", receipts="full")
    two = written_run(tmp_path / "two", receipts="runs")
    client = client_of([one, two])
    seen = Seen(client.get("/compare?run=one&run=two").text)
    assert seen.text.index("What differs") < seen.text.index("Held out")
    assert "receipts full runs" in seen.text
    assert "run.run_id" not in seen.text
    both = client.get("/curve.json?run=one&run=two&curve=held-out-success").json()
    assert [s["name"] for s in both["series"]] == ["one", "two"]
    assert client.get("/compare?run=one").status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/r/none",
        "/r/%2e%2e/manifest",
        "/r/..%2f..%2fetc/manifest",
        "/r/run/episode/none",
        "/r/run/episode/..%2f..%2f..%2fetc%2fpasswd",
        "/r/run/step/99",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/uplot/LICENSE",
        "/docs",
        "/openapi.json",
        "/r/run/nothing",
        "/curve.json?run=run&curve=none",
        "/curve.json?run=../run&curve=entropy",
    ],
)
def test_what_is_not_there_is_said_in_a_sentence_and_no_file_is_reached(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "Traceback" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "path", ["/r/run/step/x", "/r/run/steps?before=x", "/r/run/ledger?state=odd", "/curve.json?curve=entropy"]
)
def test_what_is_asked_wrongly_is_refused_without_a_traceback(client, path):
    answer = client.get(path)
    assert answer.status_code in (400, 422)
    assert "Traceback" not in answer.text


def test_a_new_commit_changes_the_revision_and_the_page(tmp_path):
    path = written_run(tmp_path / "run", steps=1)
    client = client_of([path])
    before = client.get("/r/run/live.json").json()
    with RunFolder.open(path, "write") as folder:
        assert client.get("/r/run/live.json").json()["is_written"]
        folder.commit(trained_step(2), at=START)
    after = client.get("/r/run/live.json").json()
    assert (before["step"], after["step"]) == (1, 2)
    assert before["revision"] != after["revision"]
    assert "t000003-01-0" in client.get("/r/run/episodes").text


def test_a_writer_an_event_and_a_verdict_change_what_an_open_page_asks_for(tmp_path):
    path = written_run(tmp_path / "run", steps=1)
    client = client_of([path])

    def states() -> tuple[str, str]:
        return client.get("/r/run/live.json").json()["state"], client.get("/live.json").json()["state"]

    seen = [states()]
    assert states() == seen[0]
    with RunFolder.open(path, "write") as folder:
        seen.append(states())
        folder.record_event(Event(at=START, kind="resumed", text="went on"))
        seen.append(states())
        (path / "gates.json").write_text('{"schema_version": 1, "gates": []}')
        seen.append(states())
        folder.commit(trained_step(2), at=START)
        seen.append(states())
    seen.append(states())
    assert len({of_run for of_run, _ in seen}) == len({of_list for _, of_list in seen}) == 6


def test_a_step_that_a_resume_abandons_is_gone_from_every_page(tmp_path):
    path = written_run(tmp_path / "run", steps=2)
    client = client_of([path])
    assert client.get("/r/run/step/2").status_code == 200
    with RunFolder.open(path, "write") as folder:
        folder.abandon_after(2)
        assert client.get("/r/run/step/2").status_code == 404
        assert client.get("/r/run/episode/t000002-00-0").status_code == 404
        assert client.get("/r/run/live.json").json()["abandoned"] == 1
        folder.commit(trained_step(2, size=4), at=START)
    assert "t000003-03-0" in client.get("/r/run/episodes").text


def test_a_run_that_is_deleted_meanwhile_is_said_to_be_gone(tmp_path):
    path = written_run(tmp_path / "run")
    client = client_of([path])
    assert client.get("/r/run").status_code == 200
    shutil.rmtree(path)
    for page in OF_A_RUN:
        answer = client.get(f"/r/run{page}")
        assert answer.status_code == 410, page
        assert "moved or deleted" in Seen(answer.text).text
    assert client.get("/r/run/live.json").status_code == 410
    assert "moved or deleted" in Seen(client.get("/").text).text


@pytest.mark.parametrize("table", ["segments", "receipts", "verdicts", "tool_calls"])
def test_a_committed_file_that_is_missing_or_torn_gives_a_sentence(tmp_path, table):
    path = written_run(tmp_path / "run", steps=1)
    client = client_of([path])
    shard = path / table / "000002.parquet"
    for harm in (lambda: shard.write_bytes(b"PAR1 torn"), shard.unlink):
        harm()
        answer = client.get("/r/run/episode/t000000-00-0")
        assert answer.status_code == 503
        assert "cannot be read" in answer.text
        assert "Traceback" not in answer.text


def test_a_commit_that_is_missing_is_told_on_every_page(tmp_path):
    path = written_run(tmp_path / "run", steps=2)
    client = client_of([path])
    (path / "commits" / "000002-step.json").unlink()
    assert "Commit 2 is missing" in Seen(client.get("/r/run").text).text


def test_a_run_of_another_schema_is_refused_with_a_sentence(tmp_path):
    path = written_run(tmp_path / "run")
    content = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**content, "schema_version": 99}))
    answer = client_of([path]).get("/r/run")
    assert answer.status_code == 503
    assert "schema 99" in answer.text


def test_a_run_that_has_begun_and_committed_nothing_has_every_page(tmp_path):
    path = written_run(tmp_path / "run", steps=0)
    shutil.rmtree(path / "commits")
    (path / "commits").mkdir()
    client = client_of([path])
    for page in OF_A_RUN:
        expected = 404 if "/episode/" in page or "/step/" in page else 200
        assert client.get(f"/r/run{page}").status_code == expected, page


def test_runs_that_appear_below_a_folder_are_found(tmp_path):
    client = client_of([], [tmp_path])
    assert "no run in" in Seen(client.get("/").text).text
    written_run(tmp_path / "sweep" / "a b")
    client = client_of([], [tmp_path])
    assert slug_of(client) == "sweep-a-b"
    assert client.get("/r/sweep-a-b").status_code == 200


def test_two_runs_of_one_name_have_two_addresses(tmp_path):
    client = client_of([written_run(tmp_path / "x" / "run"), written_run(tmp_path / "y" / "run")])
    assert {"/r/run", "/r/run-2"} <= set(Seen(client.get("/").text).links())


def test_an_evaluation_of_a_later_command_is_part_of_its_step(tmp_path):
    path = written_run(tmp_path / "run")
    with RunFolder.open(path, "write") as folder:
        folder.commit(evaluation(2, kind="evaluation", group_id=5_000_000), at=START)
    assert "held-out@2" in client_of([path]).get("/r/run/step/2").text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    client = client_of([hostile_run(tmp_path_factory.mktemp("hostile"))])
    return client, slug_of(client)


@pytest.mark.parametrize("page", ["", *OF_A_RUN, "/episode/t000000-01-0", "/episode/t000000-01-0?at=3&token=3000"])
def test_what_a_model_or_tool_wrote_is_text_and_nothing_in_it_stays_hidden(hostile, page):
    client, slug = hostile
    answer = client.get(f"/r/{slug}{page}")
    assert answer.status_code == 200
    seen = Seen(answer.text)
    assert {tag for tag, _ in seen.tags} & {"img", "b", "base", "iframe", "object", "meta2"} == set()
    for tag, attributes in seen.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert tag != "script" or attributes["src"].startswith("/static/")
        assert not attributes.get("href", "").lower().startswith(("javascript:", "data:"))
    assert not {*"\x1b\x00\x08\u202e\u2066\u200b\ufeff"} & {*answer.text}


def test_it_is_still_there_to_read(hostile):
    client, slug = hostile
    text = Seen(client.get(f"/r/{slug}/episode/t000000-00-0").text).text
    assert "<script>window.harmed = 1" in text
    assert "⟨U+001B⟩[31mred" in text
    assert "⟨U+202E⟩" in text
    assert "{{ 7 * 7 }}" in text


def test_a_segment_of_many_tokens_is_shown_in_parts_that_cover_it_once(hostile):
    client, slug = hostile
    address, places = f"/r/{slug}/episode/t000000-01-0?color=logprob", []
    for _ in range(20):
        seen = Seen(client.get(address).text)
        places += [a["title"].split(" · ")[0] for tag, a in seen.tags if tag == "span" and a.get("title")]
        following = [a["href"] for tag, a in seen.tags if tag == "a" and a.get("rel") == "next"]
        if not following:
            break
        address = following[0]
    positions = [int(p.rsplit(" ", 1)[1]) for p in places]
    assert positions == list(range(len(positions)))
    assert len(positions) > 7000


def test_a_hostile_task_id_leads_to_its_episodes(hostile):
    client, slug = hostile
    seen = Seen(client.get(f"/r/{slug}/episodes").text)
    [hostile_task] = {x for x in seen.links() if "/task?" in x and "script" in x}
    page = Seen(client.get(hostile_task).text)
    [link] = [x for x in page.links() if "/episodes?" in x]
    assert len([x for x in Seen(client.get(link).text).links() if "/episode/t" in x]) == 2
