"""An episode of a sandbox is paused, taken up again, forked or graded, and stands where it stood."""

import asyncio
import json

import pytest

from rollwright.environments import REPOSITORY_TREE
from rollwright.recipes.worlds import interpreter, repository
from rollwright.record import Action, Submission, ToolRequest, digest
from rollwright.tasks import SplitSizes, repository_of
from rollwright.verifiers import Composition


@pytest.fixture(scope="module")
def cells():
    world = interpreter.load(max_calls=10)
    yield world
    world.close()


@pytest.fixture(scope="module")
def repairs():
    world = repository.load(call_s=20.0)
    yield world
    world.close()


def first_task(world):
    return next(task for stratum in world.tasks(SplitSizes(train=6, held_out=0), 0) for task in stratum.train)


async def asked(episode, tool, turn, **arguments):
    """A turn with one call, and the state that the episode is in behind it."""
    request = ToolRequest(call_id=f"c{turn}", tool=tool, arguments=json.dumps(arguments))
    result = await episode.call(request)
    step = await episode.step(Action(actor="agent", turn=turn, text="", calls=(result,)))
    return result.text, step.observations[0].state_hash


BEFORE = ("open('kept.txt', 'w').write('one'); n = [1]", "import threading; held = threading.Lock(); held.acquire()")
LOOK = "print(open('kept.txt').read(), n, held.locked(), sorted(__import__('os').listdir('.')))"
FORKS = ("n.append(2); open('kept.txt', 'a').write(' two')", "n.clear(); __import__('os').remove('kept.txt')")


@pytest.mark.row("S272")
def test_files_and_process_of_a_paused_resumed_and_forked_episode_are_those_of_the_uninterrupted_one(cells):
    task = first_task(cells)

    async def goes_on(snapshot, codes):
        async with cells.environment.open(task, seed=0, snapshot=snapshot) as episode:
            await episode.begin()
            return [await asked(episode, "python", 2 + n, code=code) for n, code in enumerate(codes)]

    async def scenario():
        async with cells.environment.open(task, seed=0) as whole:
            await whole.begin()
            for number, code in enumerate(BEFORE):
                await asked(whole, "python", number, code=code)
            paused = await whole.snapshot()
            resumed = await goes_on(paused, [LOOK])
            # Two forks go their own ways, one of them by deleting what the others read.
            forks = [await goes_on(paused, [code, LOOK]) for code in FORKS]
            uninterrupted = await asked(whole, "python", 2, code=LOOK)
        return uninterrupted, resumed, forks

    (text, state), resumed, ((_, (grown, _)), (_, (emptied, _))) = asyncio.run(scenario())
    assert text == "one [1] True ['kept.txt']"
    assert resumed == [(text, state)]
    assert grown == "one two [1, 2] True ['kept.txt']"
    assert "FileNotFoundError" in emptied


@pytest.mark.row("S275")
def test_grading_changes_its_own_copy_alone_and_the_episode_stands_where_it_stood(repairs):
    task = first_task(repairs)
    repaired = repository_of(task)
    path = repaired.fix.path
    # What is graded spoils its own folder as soon as it is imported, and works only where it could.
    spoils = "open('spoiled.txt', 'w').write('x')\nimport os\nassert os.path.exists('spoiled.txt')\n"
    text = spoils + repaired.fixed[path]

    async def scenario():
        async with repairs.environment.open(task, seed=0) as episode:
            await episode.begin()
            _, before = await asked(episode, "write_file", 0, path=path, text=text)
            left = await episode.artifacts()
            submission = Submission(
                trajectory_id="t000001-00-0", task=task, terminal_reason="model_end", passages=(), artifacts=left
            )
            (score,) = await Composition(repairs.parts).score([submission])
            again = await episode.artifacts()
            after = digest((await episode.snapshot()).decode())
            listed, _ = await asked(episode, "shell", 1, command="ls -R")
        return (before, left), (after, again), score.outcome, listed

    (before, left), (after, again), outcome, listed = asyncio.run(scenario())
    assert outcome == 1.0, "the hidden calls ran in a copy that they could change"
    assert after == before
    assert again == left and "spoiled.txt" not in json.loads(again[REPOSITORY_TREE])["files"]
    assert "spoiled.txt" not in listed
