"""Names of what can go wrong at each seam."""

from typing import Literal

__all__ = ["EngineFault", "EnvironmentFault", "LearnerFault", "VerifierFault"]

EngineFault = Literal[
    "dies", "hangs", "dies_loading", "half_written", "keeps_old_weights", "loses_the_end_of_a_turn", "kills_the_run"
]
EnvironmentFault = Literal["slow", "fails", "hangs", "loses_processes"]
VerifierFault = Literal["raises", "hangs", "is_down", "loses_processes"]
LearnerFault = Literal["none", "dies", "hangs", "fills_the_disk", "kills_the_run_while_saving"]
