"""Which session holds which place, and what a new session can copy instead of computing it.

A session keeps its place from its first turn until it is released. The first tokens of a place that were computed by
prefilling alone (its prefix) stay known after release until the place is taken again: a request with the same `share`
and the same weights copies them. What was decoded is never copied, since its bits differ from a prefill's.

New weights make every cache void. A turn that goes on with its cache all the same (swap `continue`) has it to itself:
nobody copies from it, and at the turn's end it is given up.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from rollwright.engines.embedded.runner import Logits
from rollwright.record import Ids, ids

__all__ = ["NO_VERSION", "Places", "Prefix", "Session", "common_length"]

NO_VERSION = -1
"""Of a cache that is to be computed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prefix:
    """Tokens at the start of a place, all computed by prefilling under one version."""

    share: str
    version: int
    token_ids: Ids
    end_logits: Logits
    """(V,) behind the last of them."""


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """A context with a warm cache."""

    name: str
    place: int
    version: int = NO_VERSION
    """Of the weights that made the cache."""
    token_ids: Ids = field(default_factory=lambda: ids([]))
    """Whose keys and values stand in the cache."""
    is_outdated: bool = False
    """Whether newer weights serve than made the cache; then only the turn in flight uses it."""
    num_lost: int = 0
    """Tokens of the context that newer weights made void and that have not been computed again."""
    last_used: float = 0.0
    """When its last turn ended, on the engine's clock; for eviction outside the deterministic mode."""

    def hold(self, token_ids: Ids, version: int) -> None:
        """The cache was made anew under these weights, or kept under them."""
        self.version, self.token_ids = version, token_ids
        self.is_outdated, self.num_lost = False, 0

    def end_turn(self, token_ids: Ids, now: float) -> None:
        """Keep what the turn has left in the cache, unless newer weights have come meanwhile."""
        self.token_ids, self.last_used = token_ids, now
        if self.is_outdated:
            self.lose(len(token_ids))

    def lose(self, num_tokens: int) -> None:
        """What the cache holds, so many tokens, counts no more."""
        self.num_lost = max(self.num_lost, num_tokens)
        self.version, self.token_ids = NO_VERSION, ids([])


@dataclass(slots=True, kw_only=True, eq=False)
class Places:
    """The table of places."""

    num_places: int
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    _holders: dict[int, Session] = field(default_factory=dict[int, Session])
    _prefixes: dict[int, Prefix] = field(default_factory=dict[int, Prefix])
    _by_share: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    @property
    def has_room(self) -> bool:
        """Whether a place is free."""
        return len(self._holders) < self.num_places

    def open(self, name: str, wanted: int | None) -> Session:
        """Give a session the place it wants if that is free, else the lowest free one."""
        place = wanted if wanted is not None and wanted not in self._holders else self._lowest_free()
        session = Session(name=name, place=place)
        self.sessions[name] = self._holders[place] = session
        return session

    def close(self, name: str) -> Session | None:
        """Free a session's place; its prefix can still be copied until the place is taken."""
        session = self.sessions.pop(name, None)
        if session is not None:
            del self._holders[session.place]
        return session

    def holder(self, place: int) -> Session | None:
        """The session that holds a place."""
        return self._holders.get(place)

    def remember(self, place: int, prefix: Prefix | None) -> None:
        """Note what the start of a place holds from now on."""
        old = self._prefixes.pop(place, None)
        if old is not None:
            members = self._by_share[old.share]
            members.discard(place)
            if not members:
                del self._by_share[old.share]
        if prefix is not None:
            self._prefixes[place] = prefix
            self._by_share.setdefault(prefix.share, set()).add(place)

    def prefix(self, place: int) -> Prefix | None:
        """What the start of a place holds."""
        return self._prefixes.get(place)

    def best_donor(self, share: str, version: int, token_ids: Ids) -> tuple[int, int] | None:
        """The place with the longest common prefix of this share and version, and that length; None without one."""
        found: tuple[int, int] | None = None
        for place in sorted(self._by_share.get(share, ())):
            prefix = self._prefixes[place]
            length = common_length(prefix.token_ids, token_ids) if prefix.version == version else 0
            if length > 0 and (found is None or length > found[1]):
                found = (place, length)
        return found

    def outdate(self, kept: Collection[Session]) -> None:
        """New weights serve: no cache counts any more, whatever their number; open sessions keep their places.

        Args:
            kept: sessions whose turn goes on with its cache to its end.
        """
        self._prefixes.clear()
        self._by_share.clear()
        for session in self._holders.values():
            session.is_outdated = True
        keeping = {session.name for session in kept}
        for session in self._holders.values():
            if session.name not in keeping:
                session.lose(len(session.token_ids))

    def longest_idle(self, busy: Collection[str]) -> Session | None:
        """The session that has drawn nothing for longest; None where all are busy.

        Args:
            busy: names of sessions that draw, or are about to.
        """
        idle = [session for session in self._holders.values() if session.name not in busy]
        return min(idle, key=lambda session: session.last_used, default=None)

    def _lowest_free(self) -> int:
        return next(place for place in range(self.num_places) if place not in self._holders)


def common_length(first: Ids, second: Ids) -> int:
    """How many tokens two contexts share from the start."""
    size = min(len(first), len(second))
    differing = np.flatnonzero(first[:size] != second[:size])
    return int(differing[0]) if len(differing) else size
