"""Makes the cache of each admitted turn: keeps what is warm, copies what a sibling has computed, computes the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rollwright.engines.embedded.places import Places, Prefix, Session, common_length
from rollwright.engines.embedded.runner import Logits, PrefillRow, Runner
from rollwright.record import GenerationRequest, Ids

__all__ = ["Caches", "EngineCounters"]


@dataclass(slots=True, kw_only=True)
class EngineCounters:
    """What an engine has done so far; counted by its own thread."""

    prefilled_tokens: int = 0
    """Context tokens computed."""
    refilled_tokens: int = 0
    """Those of them that had been computed or drawn before, under weights that serve no more."""
    copied_tokens: int = 0
    """Context tokens taken from a place of the same `share`."""
    kept_tokens: int = 0
    """Context tokens that were warm in their session."""
    drawn_tokens: int = 0
    decode_steps: int = 0
    decode_rows: int = 0
    """Rows of all decode steps; a step has the rows that draw, and no other."""
    evicted_sessions: int = 0
    """Open sessions whose cache was given up; 0 in the deterministic mode."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reuse:
    """How much of a context need not be computed."""

    start: int
    is_pure: bool
    """Whether all before `start` was computed by prefilling."""
    end_logits: Logits | None = None
    """(V,) where nothing at all is left to compute."""


class Caches:
    """Sessions at their places over one runner; the decode thread alone calls it."""

    def __init__(self, runner: Runner, places: Places, counters: EngineCounters) -> None:
        """Store the parts."""
        self._runner = runner
        self._places = places
        self._counters = counters

    def open(self, request: GenerationRequest, version: int, evictable: Callable[[], Session | None]) -> Session | None:
        """The session of a request, at a place of its own; None while there is no room.

        Args:
            request: to be drawn.
            version: of the weights.
            evictable: gives an open session that may lose its cache, asked when no place is free.
        """
        session = self._places.sessions.get(request.session)
        if session is not None:
            return session
        if not self._places.has_room:
            idle = evictable()
            if idle is None:
                return None
            self._places.close(idle.name)
            self._counters.evicted_sessions += 1
        donor = self._places.best_donor(request.share, version, request.token_ids)
        return self._places.open(request.session, None if donor is None else donor[0])

    def fill(self, requests: Sequence[GenerationRequest], version: int) -> Logits:
        """Make the whole context of each request stand in its place.

        Args:
            requests: with open sessions, each in another.
            version: of the weights that serve.

        Returns:
            (n, V) logits behind each context.
        """
        logits = np.empty((len(requests), self._runner.vocab), dtype=np.float32)
        waiting = list(range(len(requests)))
        while waiting:
            waiting = self._fill_some(requests, waiting, version, logits)
        return logits

    def _fill_some(
        self, requests: Sequence[GenerationRequest], waiting: Sequence[int], version: int, logits: Logits
    ) -> list[int]:
        """Fill those that need not wait for a sibling computed in this round; give the others back."""
        later: list[int] = []
        leaders: dict[str, list[Ids]] = {}
        computed: list[tuple[int, _Reuse]] = []
        for index in waiting:
            request = requests[index]
            session = self._places.sessions[request.session]
            if session.version != version and self._gains(request, version, leaders.get(request.share, ())):
                later.append(index)
                continue
            reuse = self._reuse(request, session, version)
            if reuse.end_logits is None:
                computed.append((index, reuse))
                if reuse.is_pure:
                    leaders.setdefault(request.share, []).append(request.token_ids)
            else:
                logits[index] = reuse.end_logits
                self._settle(request, session, version, reuse, reuse.end_logits)
        self._compute(requests, computed, version, logits)
        return later

    def _gains(self, request: GenerationRequest, version: int, leaders: Sequence[Ids]) -> bool:
        """Whether a sibling that is being computed will have more to copy than any place has now."""
        if not leaders or not self._runner.can_copy_prefix:
            return False
        donor = self._places.best_donor(request.share, version, request.token_ids)
        present = 0 if donor is None else donor[1]
        return any(common_length(leader, request.token_ids) > present for leader in leaders)

    def _compute(
        self,
        requests: Sequence[GenerationRequest],
        computed: Sequence[tuple[int, _Reuse]],
        version: int,
        logits: Logits,
    ) -> None:
        rows: list[PrefillRow] = []
        for index, reuse in computed:
            request = requests[index]
            session = self._places.sessions[request.session]
            rows.append(PrefillRow(place=session.place, start=reuse.start, token_ids=request.token_ids[reuse.start :]))
            self._counters.prefilled_tokens += len(request.token_ids) - reuse.start
            self._counters.refilled_tokens += max(0, min(session.num_lost, len(request.token_ids)) - reuse.start)
        if not rows:
            return
        found = self._runner.prefill(rows)
        for (index, reuse), line in zip(computed, found, strict=True):
            request = requests[index]
            logits[index] = line
            self._settle(request, self._places.sessions[request.session], version, reuse, line)

    def _reuse(self, request: GenerationRequest, session: Session, version: int) -> _Reuse:
        """Keep or copy what can be; from here on the place is this context's own."""
        tokens = request.token_ids
        prefix = self._places.prefix(session.place)
        if session.version == version:
            kept = min(common_length(session.token_ids, tokens), len(tokens) - 1)
            if kept == len(session.token_ids) or self._runner.can_copy_prefix:
                self._counters.kept_tokens += kept
                return _Reuse(start=kept, is_pure=prefix is not None and kept <= len(prefix.token_ids))
        donor = self._places.best_donor(request.share, version, tokens) if self._runner.can_copy_prefix else None
        source = None if donor is None else self._places.prefix(donor[0])
        self._places.remember(session.place, None)
        if donor is None or source is None:
            return _Reuse(start=0, is_pure=True)
        is_whole = donor[1] == len(tokens) == len(source.token_ids)
        length = donor[1] if is_whole else min(donor[1], len(tokens) - 1)
        self._runner.copy_prefix(donor[0], session.place, length)
        self._counters.copied_tokens += length
        return _Reuse(start=length, is_pure=True, end_logits=source.end_logits if is_whole else None)

    def _settle(
        self, request: GenerationRequest, session: Session, version: int, reuse: _Reuse, end_logits: Logits
    ) -> None:
        """Note what the place holds now."""
        session.hold(request.token_ids, version)
        if reuse.is_pure:
            prefix = Prefix(
                share=request.share, version=version, token_ids=request.token_ids, end_logits=end_logits.copy()
            )
            self._places.remember(session.place, prefix)
