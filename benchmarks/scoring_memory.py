"""Peak memory of the loss at a wide vocabulary: scoring alone, and scoring with its gradient.

    python -m benchmarks.scoring_memory [--threads 1] [--repetitions 2] [--tokens 8192] [--vocabulary 150000]
                                        [--json FILE]

Each measurement is a fresh process. It makes hidden states, an output embedding and targets, scores a few tokens so
that libraries have what they keep, reads its resident set (VmRSS of /proc/self/status), does the work once, and reads
the highest that its resident set ever was (VmHWM). What is told is the difference, less the gradients of states and
embedding where they were made, as a share of the (tokens x vocabulary) float32 matrix that a plain loss holds at least.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.report import Report, Row, machine, table, versions, write_report
from rollwright.learner.logprobs import score_tokens

ROOT = Path(__file__).resolve().parents[1]
WORKS = {
    "score": "log-probabilities and entropies",
    "train": "the same, and the gradient of the log-probabilities",
    "train_entropy": "the same, and the gradients of both",
}
LIMIT = 0.15
MIB = 1 << 20


def resident_bytes(line: str) -> int:
    """VmRSS or VmHWM of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(one.split()[1]) * 1024 for one in status if one.startswith(line))


def work(options: argparse.Namespace) -> None:
    """Do one measurement in this process and print it."""
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(options.tokens, options.width, generator=generator)
    head = torch.randn(options.vocabulary, options.width, generator=generator).mul_(options.width**-0.5)
    targets = torch.randint(0, options.vocabulary, (options.tokens,), generator=generator)
    temperature = torch.ones(options.tokens)
    gradients = 0
    if options.work != "score":
        hidden.requires_grad_()
        head.requires_grad_()
        gradients = hidden.nbytes + head.nbytes
    few = torch.randn(4, options.width).requires_grad_()
    score_tokens(few, torch.randn(32, options.width), targets[:4] % 32, temperature[:4]).logprobs.sum().backward()
    before, began = resident_bytes("VmRSS"), time.perf_counter()
    with torch.set_grad_enabled(options.work != "score"):
        scores = score_tokens(hidden, head, targets, temperature)
        if options.work == "train":
            scores.logprobs.mean().backward()
        if options.work == "train_entropy":
            (scores.logprobs.mean() + scores.entropy.mean()).backward()
    seconds = time.perf_counter() - began
    print(json.dumps({"bytes": resident_bytes("VmHWM") - before - gradients, "wall_s": seconds}))


def measured(options: argparse.Namespace, done: str) -> tuple[int, float]:
    """Bytes and seconds of a fresh process."""
    sizes = ["--tokens", str(options.tokens), "--vocabulary", str(options.vocabulary), "--width", str(options.width)]
    command = [sys.executable, "-m", "benchmarks.scoring_memory", "--threads", str(options.threads), *sizes]
    ended = subprocess.run([*command, "--work", done], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(ended.stdout)
    return told["bytes"], told["wall_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--width", type=int, default=192, help="of a hidden state")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", choices=tuple(WORKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    matrix = options.tokens * options.vocabulary * 4
    found: dict[str, list[tuple[int, float]]] = {done: [] for done in WORKS}
    for _ in range(options.repetitions):
        for done, times in found.items():
            times.append(measured(options, done))
    rows: list[Row] = []
    for done, what in WORKS.items():
        sizes = [size for size, _ in found[done]]
        rows.append(
            Row(
                what=f"peak memory at {options.tokens:,} tokens, vocabulary {options.vocabulary:,}: {what}",
                ours=statistics.median(sizes) / MIB,
                peer=matrix / MIB,
                ratio=statistics.median(sizes) / matrix,
                low=min(sizes) / matrix,
                high=max(sizes) / matrix,
                unit="MiB",
                target=LIMIT,
                target_side="at_most",
                note=f"in {statistics.median(seconds for _, seconds in found[done]):.1f} s",
            )
        )
    print("\n".join(table(rows)))
    if options.json:
        about = {**machine(), **versions("torch"), "threads": options.threads, "width": options.width}
        write_report(Report(name="scoring_memory", rows=tuple(rows), about=about), options.json)


if __name__ == "__main__":
    main()
