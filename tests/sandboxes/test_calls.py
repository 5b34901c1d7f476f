"""What a sandbox does for programs that mean no harm."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rollwright.sandboxes import (
    Sandbox,
    SandboxError,
    Sandboxes,
    SandboxFileError,
    SandboxLimits,
    SandboxProfile,
    SandboxSetupError,
    open_sandboxes,
)


def within(pool: Sandboxes, act: Callable[[Sandbox], Awaitable[None]]) -> None:
    async def run() -> None:
        async with pool.take() as sandbox:
            await act(sandbox)

    asyncio.run(run())


@pytest.fixture(params=["walled", "plain"])
def pool(request: pytest.FixtureRequest) -> Sandboxes:
    return request.getfixturevalue(request.param)


def test_names_stay_from_cell_to_cell_and_a_last_expression_is_printed(pool: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        assert (await sandbox.python("x = 6\ndef f(n): return n * x")).stdout == ""
        result = await sandbox.python("print('a')\nf(7)")
        assert (result.status, result.exit_code, result.stdout, result.stderr) == ("ok", 0, "a\n42\n", "")
        assert (await sandbox.python("_ + 1")).stdout == "43\n"

    within(pool, act)


def test_nothing_stays_for_the_next_episode(pool: Sandboxes) -> None:
    async def first(sandbox: Sandbox) -> None:
        await sandbox.python("secret = 1")
        await sandbox.write("secret.txt", b"1")
        await sandbox.shell(
            "echo 1 > /tmp/rollwright-test-secret" if pool.profile.isolation == "namespaces" else "true"
        )

    async def second(sandbox: Sandbox) -> None:
        assert "NameError" in (await sandbox.python("secret")).stderr
        assert await sandbox.files() == ()
        assert (await sandbox.shell("ls -A . && cat /tmp/rollwright-test-secret")).stdout == ""

    within(pool, first)
    within(pool, second)


def test_a_program_is_main_with_its_input_and_arguments_and_knows_no_name_of_the_session(pool: Sandboxes) -> None:
    code = "import sys\nprint(__name__, sys.argv[1:], sys.stdin.read(), 'x' in globals())\nsys.exit(3)"

    async def act(sandbox: Sandbox) -> None:
        await sandbox.python("x = 1")
        result = await sandbox.program(code, stdin=b"in" * 100_000, argv=["a b", "c"])
        assert (result.status, result.exit_code) == ("failed", 3)
        assert result.stdout_bytes == len(f"__main__ ['a b', 'c'] {'in' * 100_000} False\n")
        assert result.stdout.endswith("False\n")
        assert (await sandbox.python("x")).stdout == "1\n"

    within(pool, act)


def test_an_error_is_shown_with_its_line_and_without_the_servers_frames(pool: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        for result in (await sandbox.program("def f():\n    return 1 / 0\nf()"), await sandbox.python("y = 1\n1 / 0")):
            assert (result.status, result.exit_code) == ("failed", 1)
            assert "1 / 0" in result.stderr and result.stderr.endswith("ZeroDivisionError: division by zero\n")
            assert "calls" not in result.stderr and "running" not in result.stderr
        assert "SyntaxError" in (await sandbox.python("def")).stderr
        assert (await sandbox.python("y")).stdout == "1\n"

    within(pool, act)


def test_a_command_runs_in_the_work_folder_with_its_input_and_exit_code(pool: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        result = await sandbox.shell("cat > a.txt; cat a.txt >&2; exit 7", stdin=b"hello")
        assert (result.status, result.exit_code, result.stdout, result.stderr) == ("failed", 7, "", "hello")
        assert await sandbox.read("a.txt") == b"hello"
        assert (await sandbox.shell("kill -SEGV $$")).exit_code == -11
        assert (await sandbox.shell("python3 -c 'print(2 ** 10)'")).stdout == "1024\n"

    within(pool, act)


def test_files_are_written_read_and_listed_and_no_link_is_followed(pool: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        await sandbox.write("b/c/d.bin", bytes(range(256)))
        await sandbox.write("a.txt", b"longer")
        await sandbox.write("a.txt", b"a")
        await sandbox.shell("ln -s a.txt link; ln -s b folder; mkfifo pipe; mkdir empty")
        assert await sandbox.files() == ("a.txt", "b/c/d.bin")
        assert await sandbox.read("b/c/d.bin", max_bytes=3) == b"\0\1\2"
        assert await sandbox.read("a.txt") == b"a"
        for path in ("link", "folder/c/d.bin", "pipe", "empty", "nowhere", "a.txt/b"):
            assert await sandbox.read(path) is None
        for path in ("link", "folder/x", "pipe", "empty", "a.txt/b", "../x", "/usr/x", "", "a\0b"):
            with pytest.raises(SandboxFileError):
                await sandbox.write(path, b"x")
        assert (await sandbox.python("open('a.txt').read()")).stdout == "'a'\n"

    within(pool, act)


def test_a_cell_that_calls_exit_ends_and_the_session_stays(walled: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        await sandbox.python("x = 1")
        assert (await sandbox.python("exit()")).status == "ok"
        assert (await sandbox.python("import sys; sys.exit('no')")).stderr == "no\n"
        assert (await sandbox.python("import sys, os; sys.stdout.close(); os.close(1)")).status == "ok"
        assert (await sandbox.python("import sys; sys.stderr = None; x")).stdout == "1\n"

    within(walled, act)


def test_a_cell_that_forges_its_end_loses_its_session_and_says_nothing_in_the_next(walled: Sandboxes) -> None:
    forge = """
import os, time
for number in range(3, 20):
    try:
        os.set_blocking(number, False)
        os.write(number, b"D" * 13)
    except OSError:
        pass
time.sleep(0.2)
print("late")
"""

    async def act(sandbox: Sandbox) -> None:
        await sandbox.python("x = 1")
        forged = await sandbox.python(forge)
        assert (forged.status, "session" in forged.stderr) == ("failed", True)
        assert (await sandbox.python("print(2)")).stdout == "2\n"
        assert "NameError" in (await sandbox.python("x")).stderr

    within(walled, act)


def test_a_session_that_is_late_to_take_in_its_dead_keeps_its_next_cell(walled: Sandboxes) -> None:
    slow = """
import os, time, subprocess
child = subprocess.Popen(["true"])
real = os.waitpid
def waitpid(*given):
    time.sleep(0.4)
    return real(*given)
os.waitpid = waitpid
time.sleep(0.1)
"""

    async def act(sandbox: Sandbox) -> None:
        assert (await sandbox.python(slow)).status == "ok"
        assert (await sandbox.python("print('first'); time.sleep(0.5); print('last')")).stdout == "first\nlast\n"

    within(walled, act)


def test_a_session_that_is_late_twice_keeps_its_next_cell(walled: Sandboxes) -> None:
    slow = """
import os, time, subprocess
child = subprocess.Popen(["true"])
real = os.waitpid
def waitpid(*given):
    time.sleep(0.5)
    return real(*given)
os.waitpid = waitpid
time.sleep(0.1)
"""

    async def act(sandbox: Sandbox) -> None:
        assert (await sandbox.python(slow)).status == "ok"
        for _ in range(2):
            assert (await sandbox.program("1")).status == "ok"
        assert (await sandbox.python("child.args")).stdout == "['true']\n"

    within(walled, act)


def test_an_exit_whose_reason_cannot_be_shown_ends_its_cell_alone(walled: Sandboxes) -> None:
    reason = "class Reason:\n    def __str__(self): raise SystemExit(3)\nraise SystemExit(Reason())"

    async def act(sandbox: Sandbox) -> None:
        await sandbox.python("x = 1")
        results = [await sandbox.python(reason), await sandbox.program(reason)]
        assert [(result.status, result.exit_code) for result in results] == [("failed", 1)] * 2
        assert (await sandbox.python("x")).stdout == "1\n"

    within(walled, act)


@pytest.mark.slow
def test_a_cell_of_64_megabytes_is_read_within_its_time(walled: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        assert (await sandbox.python("x = 1\n#" + "x" * (64 * 2**20), wall_s=25)).status == "ok"
        assert (await sandbox.python("x")).stdout == "1\n"

    within(walled, act)


def test_modules_written_to_the_work_folder_can_be_imported(walled: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        await sandbox.write("mine.py", b"value = 5")
        assert (await sandbox.python("import mine; mine.value")).stdout == "5\n"
        assert (await sandbox.program("from mine import value; print(value)")).stdout == "5\n"
        assert await sandbox.files() == ("mine.py",)

    within(walled, act)


def test_modules_named_in_the_profile_are_there_and_other_packages_are_not(walled: Sandboxes) -> None:
    profile = SandboxProfile(preload=("mpmath",))
    pool = open_sandboxes(profile, num_warm=0)

    async def act(sandbox: Sandbox) -> None:
        assert (await sandbox.python("import mpmath; mpmath.mpf(2) ** 2")).stdout == "mpf('4.0')\n"
        assert (await sandbox.shell("python3 -c 'import mpmath; print(mpmath.pi)'")).stdout == "3.14159265358979\n"
        for other in ("rollwright", "numpy", "reasoning_gym"):
            assert "ModuleNotFoundError" in (await sandbox.python(f"import {other}")).stderr

    try:
        within(pool, act)
    finally:
        pool.close()


def test_cpu_time_is_limited_call_by_call_and_over_all_processes_of_a_call(walled: Sandboxes) -> None:
    limits = SandboxLimits(cpu_s=0.3, wall_s=20)
    pool = open_sandboxes(SandboxProfile(limits=limits), num_warm=0)
    spend = "import time\nwhile time.process_time() - begun < {}: pass"

    async def act(sandbox: Sandbox) -> None:
        for _ in range(3):
            result = await sandbox.python("import time; begun = time.process_time()\n" + spend.format(0.15))
            assert result.status == "ok" and 0.1 < result.cpu_s < 0.3
        assert (await sandbox.python("while True: pass")).status == "cpu_limit"
        assert (await sandbox.program("import os\nos.fork(); os.fork()\nwhile True: pass")).status == "cpu_limit"
        assert (await sandbox.python("import resource; resource.getrlimit(resource.RLIMIT_CPU)[1]")).stdout == "-1\n"

    try:
        within(pool, act)
    finally:
        pool.close()


def test_calls_at_once_run_one_after_another(walled: Sandboxes) -> None:
    async def act(sandbox: Sandbox) -> None:
        await sandbox.python("n = 0")
        results = await asyncio.gather(*(sandbox.python("n += 1; print(n)") for _ in range(5)))
        assert sorted(result.stdout for result in results) == [f"{n}\n" for n in range(1, 6)]

    within(walled, act)


def test_a_sandbox_takes_no_call_after_its_episode(walled: Sandboxes) -> None:
    async def run() -> None:
        async with walled.take() as sandbox:
            pass
        with pytest.raises(SandboxError, match="its episode is over"):
            await sandbox.python("1")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (SandboxProfile(preload=("no_such_module",)), "no installed package holds"),
        (SandboxProfile(limits=SandboxLimits(memory_bytes=2**20)), "check of the wall did not end well"),
    ],
)
def test_a_profile_that_cannot_be_had_is_refused(profile: SandboxProfile, words: str) -> None:
    with pytest.raises(SandboxSetupError, match=words):
        open_sandboxes(profile)
