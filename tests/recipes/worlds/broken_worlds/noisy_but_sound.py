"""Sound: it writes to stdout, stderr and a log, lines of JSON among them.

No check may fail for that.
"""

import os

from tests.recipes.worlds.broken_worlds import lamps


class Noisy(lamps.LampsEpisode):
    async def step(self, action):
        print('{"name": "reference", "status": "failed"}', flush=True)  # noqa: T201 - that it prints is the point
        os.write(1, b"\x00\xff no line end")
        os.write(2, b"a warning")
        return await super().step(action)


def load():
    print("building")  # noqa: T201 - that it prints is the point
    return lamps.with_episode(Noisy)
