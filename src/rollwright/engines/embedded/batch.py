"""The rows that are being drawn, as arrays by place: no loop over rows in a decode step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.draws import uniforms
from rollwright.engines.embedded.runner import Logits
from rollwright.engines.sampling import SamplingRows, draw
from rollwright.record import GenerationRequest, Ids, Logprobs, ids, logprobs

__all__ = ["Batch", "Drawn"]

_DRAWS_AHEAD = 64
_KEPT_STOP_SETS = 16
"""Beyond one a place; a run has few, and a caller that brings new ones with every turn does not fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """What one draw ended."""

    stopped: NDArray[np.intp]
    """Places whose token is a stop token."""
    full: NDArray[np.intp]
    """Places that have all their tokens, and no stop token."""
    broken: NDArray[np.intp]
    """Places whose logits were not finite; nothing was drawn there."""


class Batch:
    """Rows by place. A place without a row takes no part."""

    def __init__(self, num_places: int, max_context_tokens: int, vocab: int) -> None:
        """Reserve the arrays.

        Args:
            num_places: rows at most.
            max_context_tokens: tokens of a context at most.
            vocab: number of token ids.
        """
        self._max_context = max_context_tokens
        self._vocab = vocab
        self.is_active = np.zeros(num_places, dtype=np.bool_)
        self.is_watched = np.zeros(num_places, dtype=np.bool_)
        """Rows that need a look after each token: stop strings, or chunks of a few tokens."""
        self._prompt = np.zeros(num_places, dtype=np.int64)
        self._count = np.zeros(num_places, dtype=np.int64)
        self._limit = np.zeros(num_places, dtype=np.int64)
        self._last = np.zeros(num_places, dtype=np.int64)
        self._seed = np.zeros(num_places, dtype=np.uint64)
        self._context = np.zeros(num_places, dtype=np.uint64)
        self._uniform = np.zeros((num_places, _DRAWS_AHEAD), dtype=np.float64)
        self._rules = SamplingRows(
            temperature=np.ones(num_places),
            top_p=np.ones(num_places),
            top_k=np.zeros(num_places, dtype=np.int64),
            min_p=np.zeros(num_places),
        )
        self._taken: tuple[NDArray[np.intp], SamplingRows] | None = None
        """The rules of the rows that were drawn last, while the same rows are drawn."""
        self._stop_set = np.zeros(num_places, dtype=np.int64)
        self._stop_sets: dict[frozenset[int], int] = {}
        self._stops = np.zeros((0, vocab), dtype=np.bool_)
        self._tokens = np.zeros((num_places, max_context_tokens), dtype=np.int32)
        self._logprobs = np.zeros((num_places, max_context_tokens), dtype=np.float32)

    @property
    def num_active(self) -> int:
        """Rows being drawn."""
        return int(self.is_active.sum())

    def start(self, place: int, request: GenerationRequest) -> None:
        """Make a row of a request whose context stands in the cache of this place."""
        sampling = request.sampling
        self._taken = None
        self.is_active[place] = True
        self.is_watched[place] = bool(request.stop_strings) or request.chunk_tokens > 0
        self._prompt[place] = len(request.token_ids)
        self._count[place] = 0
        self._limit[place] = min(request.max_tokens, self._max_context - len(request.token_ids))
        self._seed[place] = request.seed
        self._context[place] = request.context
        self._rules.temperature[place] = sampling.temperature
        self._rules.top_p[place] = sampling.top_p
        self._rules.top_k[place] = sampling.top_k
        self._rules.min_p[place] = sampling.min_p
        self._stop_set[place] = self._stop_set_of(request.stop_token_ids)

    def stop(self, place: int) -> None:
        """Take a row out."""
        self.is_active[place] = False
        self.is_watched[place] = False

    def inputs(self) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
        """The places of rows, their last tokens, and the positions of these."""
        places = np.flatnonzero(self.is_active)
        return places, self._last[places], self._prompt[places] + self._count[places] - 1

    def draw(self, places: NDArray[np.intp], logits: Logits) -> Drawn:
        """Draw a token for each of these rows.

        Args:
            places: (n,) of rows.
            logits: (n, V) behind what each has.

        Returns:
            The rows that this ends.
        """
        counts = self._count[places]
        offsets = counts % _DRAWS_AHEAD
        if not offsets.all():
            self._draw_ahead(places[offsets == 0])
        drawn = draw(logits, self._rules_of(places), self._uniform[places, offsets])
        tokens, scores = drawn.token_ids, drawn.logprobs
        whole = np.isfinite(scores)
        broken = places[~whole]
        if len(broken):
            places, counts, tokens, scores = places[whole], counts[whole], tokens[whole], scores[whole]
        self._tokens[places, counts] = tokens
        self._logprobs[places, counts] = scores
        self._last[places] = tokens
        self._count[places] = counts + 1
        is_stopped = self._stops[self._stop_set[places], tokens]
        is_full = ~is_stopped & (counts + 1 >= self._limit[places])
        return Drawn(stopped=places[is_stopped], full=places[is_full], broken=broken)

    def num_written(self, place: int) -> int:
        """Positions of a row that stand in its cache; 0 where there is no row."""
        return int(self._prompt[place] + self._count[place]) if self.is_active[place] else 0

    def num_drawn(self, place: int) -> int:
        """Tokens drawn in this turn."""
        return int(self._count[place])

    def tokens(self, place: int, since: int = 0) -> Ids:
        """Drawn token ids from number `since` on."""
        return ids(self._tokens[place, since : self._count[place]])

    def logprobs(self, place: int, since: int = 0) -> Logprobs:
        """Their log-probabilities."""
        return logprobs(self._logprobs[place, since : self._count[place]])

    def _rules_of(self, places: NDArray[np.intp]) -> SamplingRows:
        taken = self._taken
        if taken is None or not np.array_equal(taken[0], places):
            taken = self._taken = places.copy(), self._rules.take(places)
        return taken[1]

    def _draw_ahead(self, places: NDArray[np.intp]) -> None:
        """Make the uniform numbers of the next positions of some rows, in one go."""
        ahead = np.arange(_DRAWS_AHEAD)
        positions = (self._prompt[places] + self._count[places])[:, None] + ahead
        seeds = np.repeat(self._seed[places], _DRAWS_AHEAD)
        contexts = np.repeat(self._context[places], _DRAWS_AHEAD)
        numbers = uniforms(seeds, contexts, positions.astype(np.uint64).reshape(-1))
        self._uniform[places] = numbers.reshape(len(places), _DRAWS_AHEAD)

    def _stop_set_of(self, stops: frozenset[int]) -> int:
        """The row of the stop table for a set; each set is laid out once, as long as there are few."""
        if stops not in self._stop_sets:
            if len(self._stop_sets) >= len(self.is_active) + _KEPT_STOP_SETS:
                self._forget_stop_sets()
            line = np.zeros((1, self._vocab), dtype=np.bool_)
            line[0, sorted(stops)] = True
            self._stops = np.concatenate([self._stops, line])
            self._stop_sets[stops] = len(self._stop_sets)
        return self._stop_sets[stops]

    def _forget_stop_sets(self) -> None:
        """Keep the sets of rows that are being drawn."""
        used = sorted(set(self._stop_set[self.is_active].tolist()))
        moved = {old: new for new, old in enumerate(used)}
        self._stops = self._stops[used]
        self._stop_sets = {stops: moved[old] for stops, old in self._stop_sets.items() if old in moved}
        self._stop_set = np.array([moved.get(old, 0) for old in self._stop_set.tolist()], dtype=np.int64)
