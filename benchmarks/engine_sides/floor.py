"""The floor: the matrix products of the live rows, in float32, and nothing else.

    python -m benchmarks.engine_sides.floor mixed-64

Every prompt once a group, then for every step the products of the rows that still draw: the projections, the gated
layer and the head. No attention, no norms, no sampling, no host.
"""

import sys

import torch
from transformers import AutoConfig

from benchmarks.engine_sides.cases import CASES, Case
from benchmarks.paired import serve
from benchmarks.workloads import model_folder

__all__ = ["steps_of"]


def steps_of(case: Case) -> list[int]:
    """Rows of each decode step, when a slot takes the next request as soon as it is free."""
    slots = [0] * case.slots
    for length in case.lengths:
        first = slots.index(min(slots))
        slots[first] += length - 1
    return [sum(length > step for length in slots) for step in range(max(slots))]


def main(case: Case) -> None:
    config = AutoConfig.from_pretrained(model_folder(case.model))
    hidden, inner = config.hidden_size, config.intermediate_size
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    size = getattr(config, "head_dim", None) or hidden // heads
    layers = config.num_hidden_layers
    matrices = [((heads + 2 * kv_heads) * size, hidden), (hidden, heads * size), (2 * inner, hidden), (hidden, inner)]
    weights = [[torch.randn(shape).t() for shape in matrices] for _ in range(layers)]
    head = torch.randn(config.vocab_size, hidden).t()
    inputs = {width: torch.randn(4096, width) for width in (hidden, heads * size, inner)}
    decoded = steps_of(case)
    prompts = -(-case.requests // case.group_size) * case.prompt_tokens

    def products(rows: int, ends: int) -> None:
        for layer in weights:
            for matrix in layer:
                torch.mm(inputs[matrix.shape[0]][:rows], matrix)
        torch.mm(inputs[hidden][:ends], head)

    @torch.inference_mode()
    def repeat() -> dict[str, int]:
        left = prompts
        while left > 0:
            products(min(left, 2048), 64)
            left -= 2048
        for rows in decoded:
            products(rows, rows)
        return {"tokens": case.tokens}

    serve(repeat, {"torch": torch.__version__, "threads": torch.get_num_threads()})


if __name__ == "__main__":
    main(CASES[sys.argv[1]])
