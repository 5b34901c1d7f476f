"""What the event loop asks of the decode thread."""

from concurrent.futures import Future
from dataclasses import dataclass, field

from rollwright.engines.embedded.turns import Turn
from rollwright.record import ScoreRequest, Scores, Swap, WeightsManifest

__all__ = ["Cancel", "Close", "Command", "Drop", "Generate", "Load", "Pause", "Release", "Resume", "Score"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generate:
    """Draw a turn."""

    turn: Turn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drop:
    """End a turn that nobody reads any more."""

    turn: Turn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cancel:
    """End a request; what was drawn goes out."""

    request_id: str
    done: Future[None] = field(default_factory=Future[None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """Forget a session; nobody waits for it, since what is asked later is done later."""

    session: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Score:
    """Score given tokens."""

    request: ScoreRequest
    done: Future[Scores] = field(default_factory=Future[Scores])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """Serve new weights: once nothing runs, or between two decode steps."""

    manifest: WeightsManifest
    swap: Swap
    done: Future[None] = field(default_factory=Future[None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pause:
    """Draw nothing."""

    done: Future[None] = field(default_factory=Future[None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resume:
    """Go on."""

    done: Future[None] = field(default_factory=Future[None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Close:
    """End everything."""

    done: Future[None] = field(default_factory=Future[None])


Command = Generate | Drop | Cancel | Release | Score | Load | Pause | Resume | Close
