"""Any other causal LM of `transformers`, by its own forward pass: a row at a time, slower and without neighbors."""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedModel

from rollwright.engines.embedded.runner import Install, Logits, PrefillRow
from rollwright.engines.errors import UnsupportedModelError

__all__ = ["GenericRunner"]


class GenericRunner:
    """Caches of `transformers`, one a place. They may be of any kind: none is cut or copied, a new start recomputes."""

    def __init__(
        self, *, model: PreTrainedModel, vocab: int, num_places: int, max_context_tokens: int, device: torch.device
    ) -> None:
        """Copy the model, so that training it elsewhere moves nothing here.

        Args:
            model: a causal LM, in its type.
            vocab: number of token ids.
            num_places: contexts held at once.
            max_context_tokens: the longest.
            device: to serve from.
        """
        self._model = copy.deepcopy(model).eval()
        nn.Module.to(self._model, device)
        self._vocab = vocab
        self._num_places = num_places
        self._max_context = max_context_tokens
        self._cache_name = _cache_name(model)
        self._caches: dict[int, Cache] = {}

    @property
    def vocab(self) -> int:
        """Number of token ids."""
        return self._vocab

    @property
    def num_places(self) -> int:
        """Caches that hold a context each."""
        return self._num_places

    @property
    def max_context_tokens(self) -> int:
        """Tokens a place can hold."""
        return self._max_context

    @property
    def can_copy_prefix(self) -> bool:
        """Never."""
        return False

    @torch.inference_mode()
    def prefill(self, rows: Sequence[PrefillRow]) -> Logits:
        """Write tokens; (n, V) logits behind the last token of each row."""
        for row in rows:
            if row.start == 0:
                self._caches[row.place] = DynamicCache(config=self._model.config)
        return np.stack([self._forward(row.token_ids, self._caches[row.place])[-1] for row in rows])

    @torch.inference_mode()
    def decode(self, places: NDArray[np.intp], token_ids: NDArray[np.int64], positions: NDArray[np.int64]) -> Logits:
        """Write one token behind what each of these places holds; (n, V) logits behind them."""
        held = [self._caches[place] for place in places.tolist()]
        return np.stack([self._forward(token_ids[i : i + 1], cache)[-1] for i, cache in enumerate(held)])

    @torch.inference_mode()
    def score(self, token_ids: NDArray[np.int32], score_from: int) -> Iterator[Logits]:
        """Logits that tokens `score_from`… were drawn from."""
        if score_from < len(token_ids):
            yield self._forward(token_ids[:-1], DynamicCache(config=self._model.config))[score_from - 1 :]

    def copy_prefix(self, source: int, target: int, num_tokens: int) -> None:
        """Never asked."""
        raise AssertionError("a generic cache is not copied")

    def scrub(self, place: int) -> None:
        """Forget a place."""
        self._caches.pop(place, None)

    @torch.inference_mode()
    def stage(self, tensors: Mapping[str, Tensor]) -> Install:
        """Copy new weights."""
        own = self._model.state_dict()
        staged = {name: tensor.detach().to(own[name], copy=True) for name, tensor in tensors.items()}

        def install() -> None:
            with torch.inference_mode():
                for name, tensor in staged.items():
                    own[name].copy_(tensor)

        return install

    def _forward(self, token_ids: NDArray[np.integer], cache: Cache) -> Logits:
        ids = torch.from_numpy(token_ids.astype(np.int64))[None].to(self._model.device)
        held = {self._cache_name: cache}
        return self._model(input_ids=ids, use_cache=True, **held).logits[0].float().cpu().numpy()


def _cache_name(model: PreTrainedModel) -> str:
    """What the model's forward pass calls its cache; a name it does not know would be ignored without a word."""
    known = inspect.signature(model.forward).parameters
    for name in ("cache", "past_key_values"):
        if name in known:
            return name
    raise UnsupportedModelError(f"{type(model).__name__} takes no cache of keys and values; no path runs it here.")
