"""What computing a shared prompt once is worth to the learner, forward alone and forward with backward.

    python -m benchmarks.shared_prompt [--threads 1] [--repetitions 7] [--model tiny] [--json FILE]

Three sides do the same work in alternation: the learner on rows that share their beginnings; the learner on rows of the
same lengths whose first tokens differ, so that nothing is shared; and a plain `transformers` model, rows padded on the
right, logits of the completions alone. Forward scores the completions; backward is that of a weighted sum of their
log-probabilities. The prompts are long (500 tokens for 16 completions of 32), short, and nested (of all rows, of a
task, of a turn). That sharing changes no gradient is told as the distance, over the norm of it all, to the gradients of
the rows one at a time, added up.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmarks.paired import Comparison, Ratio, compare, serve
from benchmarks.report import Report, Row, machine, table, versions, write_report
from benchmarks.workloads import model_folder
from rollwright.batches import MicroBatch
from rollwright.learner.forward import Scorer, deterministic, make_scorer
from rollwright.learner.models import load_causal_lm

SIDES = ("shared", "distinct", "transformers")
WORKS = ("forward", "both")
OF_WORK = {"forward": "forward", "both": "forward and backward"}
EQUAL = 1e-5
FASTER = 4.0


@dataclass(frozen=True)
class Shape:
    """Beginnings within beginnings, and the completions of each of the last ones."""

    title: str
    levels: tuple[tuple[int, int], ...]
    """(tokens of a beginning, how many of them follow each one before)."""
    completion: int
    branches: int
    target: float | None = None

    def rows(self, vocab_size: int) -> list[list[int]]:
        draw = torch.Generator().manual_seed(0)

        def tokens(count: int) -> list[int]:
            return torch.randint(2, vocab_size, (count,), generator=draw).tolist()

        beginnings: list[list[int]] = [[]]
        for length, count in self.levels:
            beginnings = [one + tokens(length) for one in beginnings for _ in range(count)]
        return [one + tokens(self.completion) for one in beginnings for _ in range(self.branches)]


SHAPES = {
    "long": Shape("500 prompt + 16 x 32 tokens", ((500, 1),), 32, 16, FASTER),
    "short": Shape("8 x (24 prompt + 8 x 64) tokens", ((24, 8),), 64, 8),
    "nested": Shape("64 of all, 4 x 200, 2 x 64, 4 x 32 tokens", ((64, 1), (200, 4), (64, 2)), 32, 4),
}


def micro_of(rows: Sequence[Sequence[int]], completion: int) -> MicroBatch:
    """Rows whose last tokens are trained."""
    lengths = torch.tensor([len(row) for row in rows])
    total = int(lengths.sum())
    positions = torch.cat([torch.arange(int(length)) for length in lengths])
    behind = torch.repeat_interleave(lengths, lengths) - positions
    zeros = torch.zeros(total)
    return MicroBatch(
        rows=tuple(range(len(rows))),
        token_ids=torch.tensor([token for row in rows for token in row]),
        position_ids=positions,
        row_offsets=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        action_mask=behind <= completion,
        advantages=zeros,
        temperature=torch.ones(total),
        behavior=zeros,
        policy_versions=torch.zeros(total, dtype=torch.int32),
        token_weights={},
        value_targets=None,
        token_index=torch.arange(total),
    )


def weights_of(count: int) -> Tensor:
    """Of the log-probabilities in the sum that is differentiated."""
    return torch.randn(count, generator=torch.Generator().manual_seed(1))


def learner_score(scorer: Scorer, rows: Sequence[Sequence[int]], completion: int) -> Callable[[], Tensor]:
    micro = micro_of(rows, completion)
    places = micro.action_mask.nonzero().squeeze(1)
    return lambda: scorer.score(micro, places).logprobs


def plain_score(model: PreTrainedModel, rows: Sequence[Sequence[int]], completion: int) -> Callable[[], Tensor]:
    ids, targets = torch.tensor(rows), torch.tensor(rows)[:, -completion:, None]
    mask = torch.ones_like(ids)

    def score() -> Tensor:
        output = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=completion + 1)
        return output.logits[:, :-1].log_softmax(-1).gather(-1, targets).flatten()

    return score


def work(options: argparse.Namespace) -> None:
    """Be one of the sides."""
    torch.set_num_threads(options.threads)
    folder, shape = model_folder(options.model), SHAPES[options.shape]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = shape.rows(model.config.vocab_size)
    assert len(rows) < model.config.vocab_size
    if options.side == "distinct":
        rows = [[number, *row[1:]] for number, row in enumerate(rows)]
    if options.side == "transformers":
        score = plain_score(model, rows, shape.completion)
    else:
        model = load_causal_lm(folder)
        score = learner_score(make_scorer(model), rows, shape.completion)
    weights = weights_of(len(rows) * shape.completion)

    def repeat() -> Mapping[str, float]:
        if options.work == "forward":
            with torch.no_grad():
                score()
        else:
            (score() @ weights).backward()
            model.zero_grad()
        return {"tokens": sum(map(len, rows))}

    about = {**versions("torch", "transformers"), "threads": torch.get_num_threads()}
    with deterministic(torch.device("cpu")):
        serve(repeat, about)


def gradient_distance(shape: Shape, folder: Path) -> float:
    """Between all rows at once and one at a time, over the norm."""
    model = load_causal_lm(folder)
    scorer, rows = make_scorer(model), shape.rows(model.config.vocab_size)
    weights = weights_of(len(rows) * shape.completion)
    found: list[Tensor] = []
    for parts in ([rows], [[row] for row in rows]):
        model.zero_grad()
        for part, due in zip(parts, weights.chunk(len(parts)), strict=True):
            (learner_score(scorer, part, shape.completion)() @ due).backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    return float((found[0] - found[1]).norm() / found[1].norm())


def compared(options: argparse.Namespace, shape: str, done: str) -> Comparison:
    given = ["--model", options.model, "--threads", str(options.threads), "--shape", shape, "--work", done]
    command = [sys.executable, "-m", "benchmarks.shared_prompt", *given, "--side"]
    sides = {side: [*command, side] for side in SIDES}
    return compare(sides, repetitions=options.repetitions, threads=options.threads)


def timed_row(found: Comparison, side: str, what: str, target: float | None) -> Row:
    ratio: Ratio = found.ratio(side, "shared")
    processor = found.ratio(side, "shared", "cpu_s")
    return Row(
        what=what,
        ours=found.median("shared") * 1e3,
        peer=found.median(side) * 1e3,
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        unit="ms",
        target=target,
        note=f"by processor time {processor}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--work", choices=WORKS, default="both", help=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=tuple(SHAPES), default="long", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        work(options)
        return
    torch.set_num_threads(options.threads)
    folder = model_folder(options.model)
    rows: list[Row] = []
    about: dict[str, object] = {}
    for name in options.shapes:
        shape = SHAPES[name]
        for done in WORKS:
            found = compared(options, name, done)
            about[f"{name}, {done}"] = found.to_json()
            what = f"{shape.title}, {OF_WORK[done]}"
            rows.append(timed_row(found, "distinct", f"{what}, against no sharing", shape.target))
            rows.append(timed_row(found, "transformers", f"{what}, against transformers", None))
        distance = gradient_distance(shape, folder)
        what = f"{shape.title}, gradient against one row at a time"
        rows.append(Row(what=what, ours=None, peer=None, ratio=distance, target=EQUAL, target_side="at_most"))
    print("\n".join(table(rows)))
    if options.json:
        facts = {**machine(), **versions("torch", "transformers"), "threads": options.threads, "model": options.model}
        write_report(Report(name="shared_prompt", rows=tuple(rows), about={**facts, "sides": about}), options.json)


if __name__ == "__main__":
    main()
