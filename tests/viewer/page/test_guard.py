"""Who may read the page, and what every answer carries."""

import pytest

from rollwright.viewer.page.guard import COOKIE, Access, is_loopback, new_token
from tests.evidence.runs import written_run
from tests.viewer.page.pages import client_of

TOKEN = "a-token-of-forty-three-characters-at-least-x"
REMOTE = Access(hosts=frozenset({"box.example"}), token=TOKEN)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return written_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "HEAD"])
@pytest.mark.parametrize("path", ["/", "/r/run", "/live.json", "/static/page.js", "/nothing"])
def test_nothing_but_get_is_answered(run, method, path):
    answer = client_of([run]).request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "192.168.1.5", "[::2]:80", "a b"],
)
def test_another_host_is_refused_so_that_no_name_can_be_rebound_to_the_page(run, host):
    answer = client_of([run]).get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "run" not in answer.text.replace("`rollwright view` printed", "")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8321", "127.0.0.1:9", "[::1]:8321", "127.8.8.8"])
def test_loopback_names_and_addresses_are_answered_at_any_port(run, host):
    assert client_of([run]).get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/r/run", "/live.json", "/static/page.js", "/nothing", "/r/none"])
def test_every_answer_forbids_scripts_of_others_frames_and_guessing(run, path):
    headers = client_of([run]).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/", "/r/run", "/live.json", "/static/page.js", "/nothing"])
@pytest.mark.parametrize("wrong", ["", "?token=", "?token=wrong", f"?token={TOKEN}x", "?token=%C3%A9"])
def test_beyond_loopback_nothing_is_shown_without_the_token(run, path, wrong):
    answer = client_of([run], access=REMOTE).get(path + wrong, headers={"host": "box.example"})
    assert answer.status_code == 401
    assert TOKEN not in answer.text


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_sees(run):
    client = client_of([run], access=REMOTE)
    answer = client.get(f"/r/run?token={TOKEN}&x=step", headers={"host": "box.example"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/r/run?x=step"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    shown = client.get("/r/run", headers={"host": "box.example", "cookie": f"{COOKIE}={TOKEN}"})
    assert shown.status_code == 200
    assert TOKEN not in shown.text


def test_a_wrong_cookie_and_a_torn_one_are_refused(run):
    client = client_of([run], access=REMOTE)
    for cookie in (f"{COOKIE}=wrong", f"{COOKIE}", '"', f'{COOKIE}="\\', f"other={TOKEN}"):
        assert client.get("/", headers={"host": "box.example", "cookie": cookie}).status_code == 401


def test_a_program_may_carry_the_token_as_bearer(run):
    client = client_of([run], access=REMOTE)
    assert client.get("/", headers={"host": "box.example", "authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/", headers={"host": "box.example", "authorization": f"Basic {TOKEN}"}).status_code == 401


def test_the_way_in_leads_to_no_other_host(run):
    answer = client_of([run], access=REMOTE).get(f"//evil.example/?token={TOKEN}", headers={"host": "box.example"})
    assert answer.headers["location"].startswith("/")
    assert not answer.headers["location"].startswith("//")


def test_beyond_loopback_another_name_is_refused_even_with_the_token(run):
    client = client_of([run], access=REMOTE)
    headers = {"host": "evil.example", "cookie": f"{COOKIE}={TOKEN}"}
    assert client.get("/", headers=headers).status_code == 421


def test_tokens_differ_and_are_long():
    assert len({new_token() for _ in range(50)}) == 50
    assert len(new_token()) >= 43


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("box", False),
    ],
)
def test_loopback_is_told_from_the_rest(host, is_local):
    assert is_loopback(host) is is_local
