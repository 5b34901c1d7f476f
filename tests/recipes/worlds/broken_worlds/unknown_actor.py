"""Broken: an observation opens a turn of an actor that is not declared.

Told: its name, and who is declared.
"""

from dataclasses import replace

from rollwright.record import StepResult
from tests.recipes.worlds.broken_worlds import lamps


class Ghost(lamps.LampsEpisode):
    def open_turn(self, messages):
        (seen,) = super().open_turn(messages).observations
        return StepResult(observations=(replace(seen, actor="ghost" if self.state.turns else "agent"),))


def load():
    return lamps.with_episode(Ghost)
