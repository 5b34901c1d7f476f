"""No secret, home folder or absolute path of a person gets into a run."""

import json
import re
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb
import pytest

from rollwright.evidence import RunFolder
from rollwright.recipes.build.identity import event_now
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import recipe_toml, resolve, resolve_text
from rollwright.recipes.runs import resume_run
from rollwright.recipes.stored import changed_values
from rollwright.recipes.withheld import WITHHELD, portable_text, portable_tree, restored_text, without_secrets
from tests.end_to_end.small import RECIPE, SMALL, Listener, trained

SECRETS = {
    "user and password": ("http://ada:lovelace@host:80/v1", f"http://{WITHHELD}@host:80/v1"),
    "a token alone": ("https://0123abc@host/v1", f"https://{WITHHELD}@host/v1"),
    "a key of a query": ("http://host/v1?api_key=0123abc&x=1", f"http://host/v1?api_key={WITHHELD}&x=1"),
    "a signature": (
        "see https://host/file?x=1&X-Signature=0123abc now",
        f"see https://host/file?x=1&X-Signature={WITHHELD} now",
    ),
    "a key of a service": ("key sk-0123456789abcdef0123", f"key {WITHHELD}"),
    "a token of a hub": ("hf_0123456789abcdef", WITHHELD),
}
PLAIN = [
    "http://host:80/v1",
    "answer: sk-ill",
    "https://host/search?q=keys&page=2",
    "ada@example.org",
    "arXiv:2503.20783",
    "turn/policy",
]


@pytest.mark.parametrize(("text", "told"), SECRETS.values(), ids=SECRETS)
def test_secrets_of_a_text_are_withheld(text: str, told: str):
    assert without_secrets(text) == told


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_is_told(text: str):
    assert without_secrets(text) == text


def test_a_value_whose_name_says_secret_is_withheld_and_a_key_that_answers_is_not():
    tree = {"api_key": "0123", "answer_key": "B", "max_tokens": 5, "db": {"password": "x"}, "urls": ["http://a:b@c"]}
    assert portable_tree(tree) == {
        "api_key": WITHHELD,
        "answer_key": "B",
        "max_tokens": 5,
        "db": {"password": WITHHELD},
        "urls": [WITHHELD],
    }


@pytest.mark.parametrize(
    "text",
    [
        "/data/rows.jsonl",
        "file:/data/mlruns",
        "file:///data/mlruns",
        "/",
        "{cwd}/rows.jsonl",
        "file://{home}/mlruns",
        "../x",
        "{home}",
        "a/b",
    ],
)
def test_a_path_is_stored_without_this_machine_and_read_back_as_it_was(text: str):
    given = text.format(cwd=Path.cwd(), home=Path.home())
    stored = portable_text(given)
    assert not stored.startswith("/") and str(Path.home()) not in stored and str(Path.cwd()) not in stored
    assert restored_text(stored) == given


def test_a_folder_that_only_begins_like_the_home_folder_is_another_one():
    text = f"file://{Path.home()}-of-others/x"
    assert "{home}" not in portable_text(text) and restored_text(portable_text(text)) == text


def test_a_stored_recipe_asks_for_its_secret_again_and_takes_nothing_else():
    given = ['verifier.parts=[{kind="judge", model="m", url="http://ada:lovelace@127.0.0.1:9/v1"}]']
    resolved = resolve("arithmetic-tool", given)
    text = recipe_toml(resolved.recipe)
    assert "lovelace" not in text
    with pytest.raises(RecipeError, match=r"run x was stored without verifier.parts.0.url, .*--set"):
        resolve_text(text, origin="run x")
    again = resolve_text(text, origin="run x", settings=['verifier.parts.0.url="http://ada:lovelace@127.0.0.1:9/v1"'])
    assert again.recipe == resolved.recipe
    assert changed_values(text, again) == ()
    other = resolve_text(
        text, origin="run x", settings=['verifier.parts.0.url="http://a:b@127.0.0.1:9/v1"', "run.seed=4"]
    )
    assert changed_values(text, other) == ("run.seed",)


def test_an_event_tells_no_secret():
    event = event_now("resumed", f"asked http://ada:lovelace@host from {Path.home()}/x", path=f"{Path.home()}/runs/a")
    assert event.text == f"asked http://{WITHHELD}@host from {{home}}/x"
    assert "{home}/runs/a" in event.fields["path"] or "{here}" in event.fields["path"]


PLANTED = "planted0123456789secret"


class Judging(BaseHTTPRequestHandler):
    """A judge that answers at once, and fails once, in words; one that is down would be waited for."""

    has_failed = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if not Judging.has_failed:
            Judging.has_failed = True
            self.send_error(500, f"no judgement for {self.headers['Authorization']}")
            return
        message = {"role": "assistant", "content": "The answer is right.\n1"}
        body = json.dumps({"model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def judge_port() -> Generator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Judging) as server:
        thread = threading.Thread(target=server.serve_forever, name="judge", daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.training
def test_nothing_planted_is_found_in_the_folder_of_a_trained_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge_port: int
):
    """In the environment, in addresses, in a value of the recipe, in a judge's key file, in the path of the data."""
    monkeypatch.setenv("WANDB_API_KEY", f"{PLANTED}-a")
    monkeypatch.setenv("HF_TOKEN", f"{PLANTED}-b")
    monkeypatch.setenv("HOME", str(tmp_path / f"home-{PLANTED}"))
    monkeypatch.setattr("sys.argv", ["rollwright", "train", f"--set=x.api_key={PLANTED}"])
    home = tmp_path / f"home-{PLANTED}"
    key, rows = home / "key", home / "rows.jsonl"
    home.mkdir()
    key.write_text(f"{PLANTED}-c")
    tasks = [json.dumps({"prompt": f"what is {n} + 1?", "answer": str(n + 1)}) for n in range(60)]
    rows.write_text("\n".join(tasks))
    address = f"http://ada:{PLANTED}@127.0.0.1:{judge_port}/v1"
    judge = f'{{kind="judge", model="m", url="{address}", key_file="{key}", attempts=1}}'
    settings = [one for one in SMALL if not one.startswith(("stages.", "tasks.", "evaluation.", "verifier."))]
    run = trained(
        tmp_path / "run",
        resolve(
            RECIPE,
            [
                'stages=[{kind="rl", name="rl"}]',
                *settings,
                "run.steps=1",
                "evaluation.every=1",
                "evaluation.tasks=2",
                f'tasks={{kind="jsonl", train="{rows}", held_out_share=0.3}}',
                f'verifier.parts=[{{kind="custom", path="tests.end_to_end.parts:parity"}}, {judge}]',
                f'exporters=[{{kind="mlflow", uri="file:{tmp_path}/mlruns", names="trl"}}]',
            ],
        ),
    )
    found = [
        str(path.relative_to(run))
        for path in sorted(run.rglob("*"))
        if path.is_file() and PLANTED.encode() in content_of(path)
    ]
    assert found == []
    texts = [path for path in run.rglob("*") if path.suffix in (".json", ".toml", ".jsonl")]
    # Behind `..` it is the way from the current folder.
    absolute = [path.name for path in texts if re.search(rf"(?<!\.\.){re.escape(str(tmp_path))}", path.read_text())]
    assert absolute == []
    values = {value.key: value.value for value in RunFolder.open(run).manifest.configuration}
    assert values["verifier.parts.1.url"] == f'"{WITHHELD}"'
    assert values["tasks.train"] == '"{home}/rows.jsonl"'
    with pytest.raises(RecipeError, match="stored without verifier.parts.1.url"):
        resume_run(run, Listener())


def content_of(path: Path) -> bytes:
    """What a file says; of a table, every text in it, since a shard is compressed."""
    if path.suffix != ".parquet":
        return path.read_bytes()
    rows = duckdb.connect().execute("SELECT * FROM read_parquet($path)", {"path": str(path)}).fetchall()
    return json.dumps(rows, default=str).encode()
