"""The learner alone: forward and backward of a batch, beside plain `transformers` and beside the matrix products.

    python -m benchmarks.learner [--models tiny smollm2-135m] [--precisions fp32 bf16] [--threads 1] [--json FILE]

A batch is groups of eight rows, 24 tokens of a prompt that the group shares and 64 tokens of a completion, all rows of
one length, so that nobody pads: 16 groups for the tiny model, 1 for SmolLM2-135M. One repetition is the mean
log-probability of the completions and its gradient for every weight; no optimizer.

- ours: the packed rows through the learner's own path, tokens scored by its chunked loss.
- transformers: the padded batch through the model as it is, `log_softmax` of the logits, the taken tokens. bf16 is its
  autocast.
- the floor: the matrix products that the batch needs, and nothing else. u is the number of distinct tokens, a shared
  prompt counted once. For each layer: x·Wᵀ forward, the gradient of x and the gradient of W, with the matrices of q, k
  and v as one, those of gate and up as one, the output's and down's; for completions, each row's 64 queries against its
  88 keys, and for prompts, once a group, 24 against 24, QKᵀ and PV forward, dP, dV, dQ and dK backward, heads that
  share keys in one product (causality halves nothing). Of the head, the logits of the completions, the gradient of the
  states and of the matrix. All into buffers that were touched before; in bf16 all but the head's products, which are
  fp32 on our side too.

The ratio to the floor is of wall time, turn by turn; processor time stands in `about`.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.paired import Comparison, compare, serve
from benchmarks.report import Report, Row, machine, table, versions, write_report
from benchmarks.workloads import model_folder

PROMPT, COMPLETION, SIZE = 24, 64, 8
GROUPS = {"tiny": 16, "smollm2-135m": 1}
WARM_UP = {"tiny": 2, "smollm2-135m": 1}
TARGETS = {"tiny": 1.6, "smollm2-135m": 1.4}
SIDES = ("ours", "transformers", "floor")
PRECISIONS = ("fp32", "bf16")
TITLES = {"tiny": "1.7M", "smollm2-135m": "SmolLM2-135M"}


@dataclass(frozen=True)
class Case:
    """One comparison."""

    model: str
    precision: str

    @property
    def num_rows(self) -> int:
        return GROUPS[self.model] * SIZE

    @property
    def num_tokens(self) -> int:
        return self.num_rows * (PROMPT + COMPLETION)

    @property
    def num_distinct(self) -> int:
        return GROUPS[self.model] * (PROMPT + SIZE * COMPLETION)


def batch(case: Case, vocab: int) -> Any:
    """(rows, length) token ids, each group's rows with one prompt."""
    import torch

    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(3, vocab, (GROUPS[case.model], PROMPT), generator=generator)
    completions = torch.randint(3, vocab, (case.num_rows, COMPLETION), generator=generator)
    return torch.cat([prompts.repeat_interleave(SIZE, 0), completions], 1)


def ours(case: Case) -> Callable[[], None]:
    import torch

    from rollwright.learner.forward import deterministic, make_scorer
    from rollwright.learner.logprobs import predictors_of, score_tokens
    from rollwright.learner.models import Precision, load_causal_lm
    from rollwright.learner.packed import pack_rows, take_states

    scorer = make_scorer(load_causal_lm(model_folder(case.model)), Precision[case.precision.upper()])
    model = scorer.model
    table_of_ids = batch(case, model.config.vocab_size)
    ids, length = table_of_ids.flatten(), table_of_ids.shape[1]
    positions = torch.arange(length).repeat(case.num_rows)
    offsets = torch.arange(case.num_rows + 1) * length
    places = (positions >= PROMPT).nonzero().squeeze(1)
    temperature = torch.ones(len(places))

    def repeat() -> None:
        with deterministic(model.device):
            rows = pack_rows(ids, offsets)
            states = take_states(scorer.hidden(ids, positions, rows), rows, predictors_of(places))
            scores = score_tokens(states, scorer.head.weight, ids[places], temperature, scorer.head.bias)
            scores.logprobs.mean().backward()
        model.zero_grad()

    return repeat


def plain(case: Case) -> Callable[[], None]:
    import torch

    from rollwright.learner.models import load_causal_lm

    model = load_causal_lm(model_folder(case.model))
    ids = batch(case, model.config.vocab_size)
    mask = torch.ones_like(ids)

    def repeat() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "bf16"):
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        scores = logits[:, PROMPT - 1 : -1].float().log_softmax(-1).gather(2, ids[:, PROMPT:, None])
        scores.mean().backward()
        model.zero_grad()

    return repeat


def floor(case: Case) -> Callable[[], None]:
    import torch
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model_folder(case.model))
    dtype = torch.float32 if case.precision == "fp32" else torch.bfloat16
    heads, keys = config.num_attention_heads, config.num_key_value_heads
    size, hidden, inner = config.head_dim or config.hidden_size // heads, config.hidden_size, config.intermediate_size
    u, share, layers = case.num_distinct, heads // keys, config.num_hidden_layers
    linear = [((heads + 2 * keys) * size, hidden), (hidden, heads * size), (2 * inner, hidden), (hidden, inner)]
    products: list[tuple[Any, Any, Any]] = []

    def product(left: Any, right: Any) -> None:
        products.append((left, right, torch.matmul(left, right)))

    for outer, inward in linear:
        x, weight, grad = (torch.randn(*shape).to(dtype) for shape in ((u, inward), (outer, inward), (u, outer)))
        product(x, weight.t())
        product(grad, weight)
        product(grad.t(), x)
    attended = ((case.num_rows, COMPLETION, PROMPT + COMPLETION), (GROUPS[case.model], PROMPT, PROMPT))
    for count, queries, seen in attended:
        q, of_out = (torch.randn(count * keys, share * queries, size).to(dtype) for _ in range(2))
        k, v = (torch.randn(count * keys, seen, size).to(dtype) for _ in range(2))
        probs, of_scores = (torch.randn(count * keys, share * queries, seen).to(dtype) for _ in range(2))
        product(q, k.mT)
        product(probs, v)
        product(of_out, v.mT)
        product(probs.mT, of_out)
        product(of_scores, k)
        product(of_scores.mT, q)
    a_layer = list(products)
    products.clear()
    states, head = torch.randn(case.num_rows * COMPLETION, hidden), torch.randn(config.vocab_size, hidden)
    of_logits = torch.randn(len(states), len(head))
    product(states, head.t())
    product(of_logits, head)
    product(of_logits.t(), states)

    def repeat() -> None:
        for left, right, out in (*a_layer * layers, *products):
            torch.matmul(left, right, out=out)

    return repeat


def work(side: str, case: Case, threads: int) -> None:
    """Be a worker."""
    import torch

    torch.set_num_threads(threads)
    repeat = {"ours": ours, "transformers": plain, "floor": floor}[side](case)

    def counted() -> Mapping[str, float]:
        repeat()
        return {"tokens": case.num_tokens}

    serve(counted, {"threads": threads, **versions("torch", "transformers")})


def rows_of(case: Case, found: Comparison) -> list[Row]:
    name = f"forward and backward, {TITLES[case.model]}, {case.precision}"
    speeds = {side: case.num_tokens / found.median(side) for side in SIDES}
    beside, above = found.ratio("transformers", "ours"), found.ratio("ours", "floor")
    # The target is of the default precision; the other is shown.
    target = TARGETS[case.model] if case.precision == "fp32" else None
    return [
        Row(
            what=f"{name}, against the matrix products",
            ours=speeds["ours"],
            peer=speeds["floor"],
            ratio=above.value,
            low=above.low,
            high=above.high,
            unit="tokens/s",
            target=target,
            target_side="at_most",
        ),
        Row(
            what=f"{name}, against transformers",
            ours=speeds["ours"],
            peer=speeds["transformers"],
            ratio=beside.value,
            low=beside.low,
            high=beside.high,
            unit="tokens/s",
        ),
    ]


def measure(case: Case, *, repetitions: int, threads: int) -> Comparison:
    common = ("--models", case.model, "--precisions", case.precision, "--threads", str(threads))
    commands = {side: [sys.executable, "-m", "benchmarks.learner", "--side", side, *common] for side in SIDES}
    return compare(commands, repetitions=repetitions, warm_up=WARM_UP[case.model], threads=threads)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=tuple(GROUPS), default=list(GROUPS))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--repetitions", type=int, default=7, help="turns that count")
    parser.add_argument("--threads", type=int, default=1, help="of each side")
    parser.add_argument("--json", type=Path, help="file for the report")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    cases = [Case(model, precision) for model in asked.models for precision in asked.precisions]
    if asked.side is not None:
        work(asked.side, cases[0], asked.threads)
        return
    rows: list[Row] = []
    about: dict[str, Any] = {"machine": machine(), "threads": asked.threads}
    for case in cases:
        found = measure(case, repetitions=asked.repetitions, threads=asked.threads)
        rows += rows_of(case, found)
        about[f"{case.model} {case.precision}"] = found.to_json() | {
            "processor_ratio_to_floor": found.ratio("ours", "floor", "cpu_s").value,
            "processor_ratio_to_transformers": found.ratio("transformers", "ours", "cpu_s").value,
        }
        print("\n".join(table(rows[-2:])), flush=True)
    if asked.json is not None:
        write_report(Report(name="learner", rows=tuple(rows), about=about), asked.json)


if __name__ == "__main__":
    main()
