"""The parts that this project's own packages are enough for. What stands in the way is an exception."""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.on_gpu.place import Place, TypeName, drawn, memory_gib, moved, opened, prompts_of, seconds_of
from benchmarks.report import Row
from rollwright.batches import MicroBatch
from rollwright.learner.forward import Scorer, make_scorer
from rollwright.learner.models import Precision
from rollwright.learner.placement import copied_to, move_model
from rollwright.learner.state import named_weights, tensor_specs
from rollwright.learner.tree_attention import tree_attention
from rollwright.learner.trie import pack_rows
from rollwright.runtime.probes import ProbeRule

__all__ = ["PARTS"]

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
DTYPES: Mapping[TypeName, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
GRADIENT: Mapping[TypeName, float] = {"float32": 1e-4, "bfloat16": 2e-2}
"""Of the norm: what a product of that type may round."""
HEADS, KV_HEADS, HEAD_SIZE = 14, 2, 64
"""Of Qwen2.5-0.5B."""


def agreement(place: Place) -> list[Row]:
    """What the engine said of the tokens that it drew, beside what the learner says of them, in both types."""
    rows: list[Row] = []
    model = place.model()
    prompts = prompts_of(place, model.config.vocab_size)
    for dtype in DTYPES:
        turns = asyncio.run(_drawn_once(model, prompts, place, dtype))
        move_model(model, place.device)
        attempts, count = place.sizes.attempts, place.sizes.new_tokens
        whole = [[*prompts[n // attempts], *tokens] for n, (tokens, _) in enumerate(turns)]
        scored = _scores(make_scorer(model, Precision(dtype)), moved(whole, count, place.device), grad=False)
        said = torch.tensor([logprob for _, logprobs in turns for logprob in logprobs])
        gap = (scored.cpu() - said).abs()
        move_model(model, "cpu")
        bound = ProbeRule().max_logprob_gap if dtype == "float32" else None
        rows += [
            _figure(f"engine and learner, {dtype}: largest gap", float(gap.max()), "nats", bound),
            _figure(f"engine and learner, {dtype}: mean gap", float(gap.mean()), "nats", None),
        ]
    return rows


def attention(place: Place) -> list[Row]:
    """The learner's attention over a shared prompt against dense attention in float64, and its time beside a mask's."""
    length, count, branches = (500, 32, 16) if place.is_gpu else (150, 20, 4)
    draw = torch.Generator().manual_seed(0)
    tokens = [torch.cat([torch.arange(length), torch.randint(9, (count,), generator=draw)]) for _ in range(branches)]
    offsets = torch.arange(branches + 1) * (length + count)
    packing = pack_rows(torch.cat(tokens).to(place.device), offsets)
    places = torch.arange(len(packing.distinct), device=place.device)
    sees = (places <= places[:, None]) & (places[:, None] < packing.ends)
    sizes = (HEADS, KV_HEADS, KV_HEADS, HEADS)
    wide = [torch.randn(len(places), n, HEAD_SIZE, generator=draw).to(place.device) for n in sizes]
    scale = HEAD_SIZE**-0.5
    rows: list[Row] = []
    for name, dtype in DTYPES.items():
        inputs = [one.to(dtype) for one in wide]
        ours = _with_gradients(lambda q, k, v: tree_attention(q, k, v, packing, scale), inputs)
        exact = _with_gradients(lambda q, k, v: _dense(q, k, v, sees, scale), [one.double() for one in inputs])
        worst = max(float((a.double() - b).norm() / b.norm()) for a, b in zip(ours, exact, strict=True))
        rows.append(_figure(f"attention, {name}: output and gradients off the dense ones", worst, "", GRADIENT[name]))
    inputs = [one.to(DTYPES[place.dtype]) for one in wide]
    ours_s = seconds_of(lambda: _with_gradients(lambda q, k, v: tree_attention(q, k, v, packing, scale), inputs), place)
    dense_s = seconds_of(lambda: _with_gradients(lambda q, k, v: _masked(q, k, v, sees, scale), inputs), place)
    what = f"attention, {place.dtype}: forward and backward of {len(places)} tokens, against a mask"
    rows.append(Row(what=what, ours=1e3 * ours_s, peer=1e3 * dense_s, ratio=dense_s / ours_s, unit="ms"))
    return rows


def gradient(place: Place) -> list[Row]:
    """The whole learner's gradient over rows that share a prompt, against `transformers` row by row, in float32."""
    model = place.model()
    prompts = prompts_of(place, model.config.vocab_size)
    count, attempts = place.sizes.new_tokens, min(4, place.sizes.attempts)
    draw = torch.Generator().manual_seed(1)
    rows = [[*prompts[0], *torch.randint(3, 200, (count,), generator=draw).tolist()] for _ in range(attempts)]
    weights = torch.randn(attempts * count, generator=draw).to(place.device)
    move_model(model, place.device)
    scorer = make_scorer(model)
    ours = _gradients(model.parameters(), _scores(scorer, moved(rows, count, place.device)), weights)
    plain = torch.cat([_plain(model, row, count, place.device) for row in rows])
    theirs = _gradients(model.parameters(), plain, weights)
    off = sum(float((a - b).double().norm() ** 2) for a, b in zip(ours, theirs, strict=True)) ** 0.5
    whole = sum(float(b.double().norm() ** 2) for b in theirs) ** 0.5
    return [_figure("learner, float32: gradient off that of transformers", off / whole, "", GRADIENT["float32"])]


def rates(place: Place) -> list[Row]:
    """Tokens a second of engine, learner and publication, and the memory that they take."""
    model, sizes = place.model(), place.sizes
    prompts = prompts_of(place, model.config.vocab_size)
    place.forget_peak()
    first_s, all_s = asyncio.run(_sampling_s(model, prompts, place))
    decoded = sizes.contexts * (sizes.new_tokens - 1)
    rows = [
        _rate(f"engine, {place.dtype}: prompts, with the first token", sizes.prompts * sizes.prompt_tokens / first_s),
        _rate(f"engine, {place.dtype}: decode, {sizes.contexts} at once", decoded / max(all_s - first_s, 1e-9)),
        _figure("engine: most memory", memory_gib(place), "GiB", None),
    ]
    move_model(model, place.device)
    place.forget_peak()
    scorer = make_scorer(model, Precision(place.dtype))
    completion = [1 + number % 100 for number in range(sizes.new_tokens)]
    whole = [[*prompts[n // sizes.attempts], 3 + n, *completion[1:]] for n in range(sizes.contexts)]
    micro = moved(whole, sizes.new_tokens, place.device)
    parameters = list(model.parameters())
    both_s = seconds_of(lambda: torch.autograd.grad(_scores(scorer, micro).sum(), parameters), place)
    score_s = seconds_of(lambda: _scores(scorer, micro, grad=False), place)
    weights = named_weights(model)
    return [
        *rows,
        _rate(f"learner, {place.dtype}: scoring", sum(map(len, whole)) / score_s),
        _rate(f"learner, {place.dtype}: forward and backward", sum(map(len, whole)) / both_s),
        _figure("learner: most memory, without an optimizer", memory_gib(place), "GiB", None),
        _figure("weights: digests for a manifest", seconds_of(lambda: tensor_specs(weights), place), "s", None),
        _figure("weights: to the host", seconds_of(lambda: copied_to("cpu")(weights), place), "s", None),
    ]


async def _drawn_once(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], place: Place, dtype: TypeName
) -> list[tuple[list[int], list[float]]]:
    engine = opened(model, place, dtype)
    try:
        return await drawn(engine, prompts, place)
    finally:
        await engine.close()


async def _sampling_s(model: PreTrainedModel, prompts: Sequence[Sequence[int]], place: Place) -> tuple[float, float]:
    """Seconds for one token behind each prompt, and for all tokens: medians, behind a turn that does not count."""
    engine = opened(model, place, place.dtype)
    medians: list[float] = []
    try:
        for count in (1, place.sizes.new_tokens):
            spent: list[float] = []
            for turn in range(1 + place.sizes.turns):
                began = time.perf_counter()
                await drawn(engine, prompts, place, go=turn + 1000 * count, new_tokens=count)
                spent.append(time.perf_counter() - began)
            medians.append(statistics.median(spent[1:]))
    finally:
        await engine.close()
    return medians[0], medians[1]


def _scores(scorer: Scorer, micro: MicroBatch, *, grad: bool = True) -> Tensor:
    """Log-probabilities of the trained tokens."""
    with torch.set_grad_enabled(grad):
        return scorer.score(micro, micro.action_mask.nonzero().squeeze(1)).logprobs


def _plain(model: PreTrainedModel, row: Sequence[int], count: int, device: str) -> Tensor:
    """The same of one row, by the model itself."""
    tokens = torch.tensor(row, device=device)
    logits = model(input_ids=tokens[None], use_cache=False).logits[0, -count - 1 : -1]
    return logits.log_softmax(-1).gather(-1, tokens[-count:, None]).squeeze(-1)


def _gradients(parameters: Iterable[Tensor], scores: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((scores * weights).sum(), list(parameters))


def _with_gradients(attend: Attend, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The output, and the gradients of query, key and value."""
    *leaves, due = (one.detach() for one in inputs)
    leaves = [leaf.requires_grad_() for leaf in leaves]
    out = attend(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, due)]


def _dense(query: Tensor, key: Tensor, value: Tensor, sees: Tensor, scale: float) -> Tensor:
    """Attention as it is written down."""
    group = query.shape[1] // key.shape[1]
    key, value = (one.repeat_interleave(group, 1) for one in (key, value))
    scores = torch.einsum("ihd,jhd->hij", query, key) * scale
    return torch.einsum("hij,jhd->ihd", scores.masked_fill(~sees, -torch.inf).softmax(-1), value)


def _masked(query: Tensor, key: Tensor, value: Tensor, sees: Tensor, scale: float) -> Tensor:
    """The same by torch's own kernel with a mask of all pairs."""
    heads = (one.transpose(0, 1)[None] for one in (query, key, value))
    out = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=sees, scale=scale, enable_gqa=True)
    return out[0].transpose(0, 1)


def _figure(what: str, value: float, unit: str, most: float | None) -> Row:
    """A figure of ours alone, with the most that it may be."""
    ratio = None if most is None else value
    return Row(what=what, ours=value, peer=None, ratio=ratio, unit=unit, target=most, target_side="at_most")


def _rate(what: str, value: float) -> Row:
    return Row(what=what, ours=value, peer=None, ratio=None, unit="tokens/s")


PARTS: Mapping[str, Callable[[Place], list[Row]]] = {
    "agreement": agreement,
    "attention": attention,
    "gradient": gradient,
    "rates": rates,
}
"""In the order in which they run: what must be right before what must be fast."""
