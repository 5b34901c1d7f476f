"""Broken: a snapshot is a number of a table in memory.

Told: that another process cannot restore it.
"""

from tests.recipes.worlds.broken_worlds import lamps

kept = []


class Kept(lamps.LampsEpisode):
    async def snapshot(self):
        kept.append(await super().snapshot())
        return str(len(kept) - 1).encode()


class Keeping(lamps.LampsEnvironment):
    episode = Kept

    def restored(self, snapshot, task, seed):
        return super().restored(kept[int(snapshot)], task, seed)


def load():
    return lamps.with_environment(Keeping())
