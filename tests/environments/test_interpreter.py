"""Code that a policy writes, what it reads of it, and what no code of its own can get."""

import asyncio
import json

import pytest

from rollwright.batches.masking import action_mask, tool_mask
from rollwright.environments import CodeBlocks, EnvironmentSetupError, InterpreterDemonstrator, LimitedEnvironment
from rollwright.environments import ToolLimits as Limits
from rollwright.environments.interpreter import interpreter_environment
from rollwright.recipes.worlds import arithmetic, null_agent
from rollwright.recipes.worlds.interpreter import load
from rollwright.record import Action, EnvironmentBrokenError, Message, ToolRequest
from rollwright.sandboxes import SandboxLimits, SandboxProfile, open_sandboxes
from rollwright.tasks import Payload, SplitSizes, make_task, payload_of
from rollwright.verifiers import Composition
from tests.environments.played import play, said, turn


@pytest.fixture(scope="module")
def world():
    world = load(max_calls=4, result_characters=200)
    yield world
    world.close()


@pytest.fixture(scope="module")
def short():
    """Episodes whose programs may compute for a moment only."""
    pool = open_sandboxes(SandboxProfile(limits=SandboxLimits(wall_s=30.0, cpu_s=0.5)), num_warm=1)
    yield interpreter_environment(pool, limits=Limits(calls=4))
    pool.close()


@pytest.fixture(scope="module")
def tasks(world):
    return [task for stratum in world.tasks(SplitSizes(train=15, held_out=5), 0) for task in stratum.train]


def reward(world, played):
    (score,) = asyncio.run(Composition(world.parts).score([played.submission]))
    return score.outcome


def test_the_limits_of_an_episode_are_declared(world):
    assert isinstance(world.environment, LimitedEnvironment)
    declared = dict(world.environment.limits)
    assert declared.pop("call_timeout_s") > 0
    assert declared == {"calls": 4, "result_characters": 200, "argument_characters": Limits().argument_characters}


# --------------------------------------------------------------------------------------------------------------- agents


def test_the_reference_solves_every_level_and_says_nothing_of_its_own(world, tasks, renderer):
    for task in tasks:
        played = play(renderer, world.environment, task, world.reference(task, 0))
        assert played.results == [("ok", payload_of(task).answer)]
        assert reward(world, played) == 1.0


def test_the_null_agent_and_every_attack_earn_nothing(world, tasks, renderer):
    for name, agent in {"null": null_agent, **world.attacks}.items():
        for task in tasks[::6]:
            played = play(renderer, world.environment, task, agent(task, 0))
            assert reward(world, played) == 0.0, name


def test_a_demonstration_without_code_is_right_in_the_first_level_alone(tasks):
    show = InterpreterDemonstrator(code_share=0.0)
    for task in tasks:
        (only,) = show(task, 0)
        payload = payload_of(task)
        assert (only.text == f"answer: {payload.answer}") == (payload.number("level", 0) == 1)


# ------------------------------------------------------------------------------------------------------------- programs


def masks(trajectory):
    """(trained, written by a tool), by token."""
    path = trajectory.segments
    eligible = frozenset((segment.origin, segment.policy) for segment in path if segment.origin == "demonstration")
    return action_mask(path, eligible), tool_mask(path)


def test_programs_are_trained_and_what_they_print_is_not(world, tasks, renderer):
    turns = [turn("python", code="x = 20\nprint(x)"), turn("python", code="x + 1"), said("answer: nothing")]
    played = play(renderer, world.environment, tasks[0], turns)
    assert [text for _, text in played.results] == ["20", "21"]
    trained, printed = masks(played.trajectory)
    assert printed.sum() > 0 and trained.sum() > 0 and not (trained & printed).any()
    assert reward(world, played) == 0.0


@pytest.mark.row("S434")
def test_calls_of_a_calculator_are_steps_their_results_are_masked_and_the_final_answer_is_scored(renderer):
    world = arithmetic.load()
    payload = Payload(
        messages=(Message(role="user", text="What is 12*34?"),),
        answer="408",
        info={"expression": "12*34", "slice": "hard"},
    )
    task = make_task(payload, source="arithmetic", revision="r", split="train")
    right = play(renderer, world.environment, task, world.reference(task, 0))
    trained, printed = masks(right.trajectory)
    assert right.results == [("ok", "408")]
    assert printed.sum() > 0 and trained.sum() > 0 and not (trained & printed).any()
    wrong = play(renderer, world.environment, task, [*world.reference(task, 0)[:-1], said("answer: 123456")])
    assert (reward(world, right), reward(world, wrong)) == (1.0, 0.0)


def test_what_a_program_does_wrong_is_a_result_that_the_policy_reads(short, tasks, renderer):
    turns = [
        turn("python", code="print('before')\n1/0"),
        turn("python", code="while True: pass"),
        turn("python", code="this is no code"),
        turn("python", code="print('x' * 5000)"),
        turn("python", code="print('one call too many')"),
        said("answer: 0"),
    ]
    results = play(renderer, short, tasks[0], turns).results
    assert [status for status, _ in results] == ["tool_error", "timeout", "tool_error", "ok", "limit"]
    assert results[0][1] == "before\nerror: ZeroDivisionError: division by zero"
    assert results[1][1].endswith("error: stopped: it took too long")
    assert "SyntaxError" in results[2][1]
    assert "characters cut" in results[3][1] and len(results[3][1]) < 500
    assert results[4][1] == "error: no calls left, 4 are allowed"


def test_nothing_of_an_episode_is_there_in_the_next(world, tasks, renderer):
    leave = [turn("python", code="kept = 1\nopen('kept', 'w').write('1')"), said("answer: 0")]
    look = [turn("python", code="import os\nprint('kept' in globals(), os.listdir())"), said("answer: 0")]
    play(renderer, world.environment, tasks[0], leave)
    assert play(renderer, world.environment, tasks[0], look).results == [("ok", "False []")]


def test_the_gold_answer_is_nowhere_in_the_sandbox(world, tasks, renderer):
    answer = "73" + "9" * 12
    task = tasks[0].__class__(
        task_id="t/1",
        source="t",
        revision="1",
        split="train",
        payload=json.dumps({"answer": answer, "info": {}, "question": "q?"}),
    )
    search = """\
import gc, glob, os, re, sys
seen = [repr(dict(os.environ)), repr(sys.argv)]
for pattern in ('/proc/*/environ', '/proc/*/cmdline', '/work/**', '/tmp/**', '/home/**', '/root/**'):
    for path in glob.glob(pattern, recursive=True):
        try:
            seen.append(open(path, errors='replace').read())
        except OSError:
            pass
frame = sys._getframe()
while frame:
    seen.append(repr(frame.f_locals))
    frame = frame.f_back
seen += [repr(list(one)[:100]) for one in gc.get_objects() if type(one) in (dict, list, tuple)]
print(any(re.search('739{12}', one) for one in seen))
"""
    assert play(renderer, world.environment, task, [turn("python", code=search), said("x")]).results == [
        ("ok", "False")
    ]


# ------------------------------------------------------------------------------------------------- blocks and snapshots


def test_a_block_at_the_end_of_a_turn_is_run_and_shown_between_tags(tasks, renderer):
    world = load(form="block", max_calls=2)
    try:
        task = tasks[-1]
        played = play(renderer, world.environment, task, world.reference(task, 0))
        shown = [p.text for p in played.submission.passages if p.kind in ("user", "environment")]
        assert shown[-1] == f"<interpreter>{payload_of(task).answer}</interpreter>"
        assert reward(world, played) == 1.0
        assert played.trajectory.tool_calls == ()
    finally:
        world.close()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<code>print(1)</code>", "print(1)"),
        ("So <code>\n```python\nprint(1)\n```\n</code>  ", "print(1)"),
        ("<code>a</code> then <code>b</code>", "b"),
        ("<code>a</code> is what I ran", None),
        ("print(1)</code>", None),
        ("", None),
    ],
)
def test_only_a_complete_block_that_ends_a_turn_is_code(text, code):
    assert CodeBlocks().find(text) == code


def test_a_result_cannot_close_its_own_tag():
    assert CodeBlocks().result("1</interpreter><code>2") == "<interpreter>1<code>2</interpreter>"


def test_tags_that_are_equal_are_refused():
    with pytest.raises(EnvironmentSetupError, match="must differ"):
        CodeBlocks(opening="x", closing="x")


def test_an_episode_goes_on_from_its_snapshot_with_its_names(world, tasks):
    async def scenario():
        async with world.environment.open(tasks[0], seed=0) as episode:
            await episode.begin()
            first = await episode.call(ToolRequest(call_id="a", tool="python", arguments='{"code": "n = 41"}'))
            step = await episode.step(Action(actor="agent", turn=0, text="", calls=(first,)))
            kept = await episode.snapshot()
        async with world.environment.open(tasks[0], seed=0, snapshot=kept) as episode:
            again = await episode.begin()
            result = await episode.call(ToolRequest(call_id="b", tool="python", arguments='{"code": "print(n + 1)"}'))
        return step.observations[0].state_hash, again.observations[0].state_hash, result.text

    before, after, text = asyncio.run(scenario())
    assert (before, text) == (after, "42")


def test_a_snapshot_of_a_program_that_depends_on_more_than_the_sandbox_is_refused(world, tasks):
    async def scenario():
        code = '{"code": "import os; print(os.urandom(8))"}'
        async with world.environment.open(tasks[0], seed=0) as episode:
            await episode.begin()
            first = await episode.call(ToolRequest(call_id="a", tool="python", arguments=code))
            await episode.step(Action(actor="agent", turn=0, text="", calls=(first,)))
            kept = await episode.snapshot()
        async with world.environment.open(tasks[0], seed=0, snapshot=kept) as episode:
            await episode.call(ToolRequest(call_id="b", tool="python", arguments='{"code": "1"}'))

    with pytest.raises(EnvironmentBrokenError, match="gave another result"):
        asyncio.run(scenario())
