"""`rollwright view` as a person starts and ends it."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from tests.evidence.runs import written_run


def _started(*arguments: str) -> tuple[subprocess.Popen[str], dict]:
    command = [sys.executable, "-m", "rollwright", "view", *arguments, "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def _status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_it_listens_on_this_machine_alone_and_ctrl_c_ends_it_without_complaint(tmp_path):
    process, said = _started(str(written_run(tmp_path / "run")))
    try:
        assert said["is_local"]
        assert urlsplit(said["address"]).hostname == "127.0.0.1"
        assert _status(said["address"] + "r/run") == 200
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, complaint) == (0, "")


def test_for_others_it_prints_a_token_once_and_demands_it(tmp_path):
    process, said = _started(str(written_run(tmp_path / "run")), "--host", "0.0.0.0")
    try:
        assert not said["is_local"]
        place = urlsplit(said["address"])
        local = f"http://127.0.0.1:{place.port}"
        assert _status(local + "/r/run") == 401
        assert _status(f"{local}/r/run?{place.query[:-1]}") == 401
        token = place.query.removeprefix("token=")
        asked = urllib.request.Request(local + "/r/run", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 200
    finally:
        process.terminate()
        printed, complaint = process.communicate(timeout=60)
    assert token not in printed + complaint


@pytest.mark.parametrize("arguments", [("nowhere",), ("--port", "1", "--host", "203.0.113.9"), ("--port", "99999")])
def test_what_cannot_be_served_is_said_in_a_sentence(tmp_path, monkeypatch, capfd, arguments):
    from rollwright.cli.main import run_command

    monkeypatch.chdir(tmp_path)
    assert run_command(["view", *arguments]) != 0
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.startswith("rollwright: ")
