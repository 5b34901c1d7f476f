"""What the host does for a step, part by part, and how it grows: with tokens, with group size, with sources.

    python benchmarks/scale.py [--rounds 3] [--largest 1000000] [--learner 100000] [--json FILE]

Whole steps of made episodes go through everything that the loop does with a step but sampling, scoring and gradients:
laid out, given credit, weighed, cut, their loss taken of scores that a model might have given, receipts, ledger,
metrics, and the Parquet files of its commit. Told is processor time a token, and the slope of its logarithm over that
of the tokens: 1 is linear. Group sizes and sources are compared at equal tokens. Then the same with a real learner,
forward, backward and step of a small model. Before it all: what cuts into micro-batches make a model compute.
"""

import argparse
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import torch
from cuts import cut_rows
from made_episodes import NOON, VOCABULARY, Shape, made_groups, num_tokens_of
from report import Report, Row, machine, table, versions, write_report

from rollwright.algorithms import Objective
from rollwright.algorithms.composition import loss_terms
from rollwright.batches import (
    MicroBatch,
    StepBatch,
    UpdateOutcome,
    UpdatePlan,
    batch_metrics,
    components_of,
    cut,
    give_credit,
    lay_out,
    plan_updates,
    receipts_of,
    update_metrics,
)
from rollwright.evidence.drafting import CommitRows, draft_tables
from rollwright.evidence.shards import parquet_bytes
from rollwright.learner.causal_learner import CausalLearner, LearnerSettings, make_learner, streams_of
from rollwright.learner.logprobs import TokenScores
from rollwright.learner.machine import spare_imported_objects
from rollwright.learner.optimizer import OptimizerSettings, Schedule
from rollwright.learner.outcome import TokenLedger, UpdateFacts
from rollwright.learner.shares import shares_of
from rollwright.recipes.build.terms import StageTerms, stage_terms
from rollwright.recipes.resolve import resolve
from rollwright.record import Group, LedgerRow, Metric, Receipt
from rollwright.record.tables import table_named
from rollwright.runtime.ledger import Ledger, SlotChange, member_change
from rollwright.runtime.metrics import StepClock, StepEpisodes, step_metrics
from rollwright.runtime.timebook import PartTimes

Given = ParamSpec("Given")
Made = TypeVar("Made")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
GROUP_SIZES = (2, 8, 32, 256)
SOURCES = (1, 20, 200)
COMPARED_TOKENS = 200_000
"""At which group sizes and sources are compared."""
BUDGET = 8192
EXPONENT = 1.1
"""The largest slope that is called linear: a quarter more for a token where a step has ten times as many."""
SPREAD = 1.5
"""The largest ratio that is called constant, over group sizes and sources."""


@dataclass
class Spent:
    """Processor seconds by part."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def on(self, part: str, call: Callable[Given, Made], *args: Given.args, **kwargs: Given.kwargs) -> Made:
        began = time.process_time()
        try:
            return call(*args, **kwargs)
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.process_time() - began

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def default_terms() -> StageTerms:
    """What the default recipe trains, and by what objective."""
    recipe = resolve("arithmetic-tool", ()).recipe
    return stage_terms(recipe.stages[-1], recipe)


def host_step(groups: Sequence[Group], terms: StageTerms) -> Spent:
    """Everything but the model, once."""
    spent, objective = Spent(), terms.objective
    batch = planned(groups, terms, spent)
    plans = spent.on(
        "weights and updates", plan_updates, batch, objective, first_update=1, num_minibatches=terms.num_minibatches
    )
    receipts: list[Receipt] = []
    metrics: list[Metric] = list(spent.on("metrics of the batch", batch_metrics, batch, success_at=1.0, now=NOON))
    for plan in plans:
        outcome = stub_update(plan, objective, spent)
        receipts += spent.on("receipts", receipts_of, plan, outcome, objective)
        metrics += spent.on("metrics of the update", update_metrics, plan, outcome, objective, now=NOON)
    ledger = spent.on("ledger", ledger_rows, groups)
    metrics += spent.on("metrics of the step", told, groups, ledger, receipts)
    rows = CommitRows(
        kind="step",
        step=1,
        trajectories=[m for group in groups for m in group.members],
        receipts=receipts,
        ledger=ledger,
        metrics=metrics,
    )
    tables, _ = spent.on("rows to tables", draft_tables, rows, "full", 0, frozenset())
    for name, of_rows in tables.items():
        spent.on("tables to Parquet", parquet_bytes, table_named(name), of_rows)
    return spent


def planned(groups: Sequence[Group], terms: StageTerms, spent: Spent) -> StepBatch:
    draft = spent.on("layout", lay_out, groups, step=1, eligible=terms.eligible, rules=terms.rules)
    return spent.on("credit", give_credit, draft, terms.objective, rules=terms.rules)


def stub_update(plan: UpdatePlan, objective: Objective, spent: Spent) -> UpdateOutcome:
    """What the learner does around its model: cuts, losses with their gradient at the scores, and the outcome."""
    ledger = TokenLedger(len(plan.batch.token_ids), tuple(name for name, _ in components_of(objective)))
    shares = spent.on("shares", shares_of, plan, objective)
    for share in (shares.trained, shares.quiet):
        for micro in spent.on("cut", cut, share, token_budget=BUDGET):
            scores = stub_scores(micro)
            spent.on("loss terms", _loss, micro, objective, scores, ledger)
    facts = UpdateFacts(grad_norm=1.0, learning_rate=1e-3, skipped_reason=None, update_norm=0.1)
    outcome = spent.on("outcome", ledger.outcome, plan, facts, None)
    return replace(outcome, proximal=outcome.current, current=None)


def stub_scores(micro: MicroBatch) -> TokenScores:
    """Scores near those of the sampler, as a model of almost the same weights gives them."""
    behavior = micro.behavior[micro.action_mask]
    noise = torch.linspace(-0.01, 0.01, len(behavior))
    return TokenScores(logprobs=(behavior + noise).requires_grad_(), entropy=torch.full_like(behavior, 0.7))


def _loss(micro: MicroBatch, objective: Objective, scores: TokenScores, ledger: TokenLedger) -> None:
    places = micro.action_mask.nonzero().squeeze(1)
    terms = loss_terms(objective, streams_of(micro, objective, places, scores), micro.token_weights)
    terms.loss.backward()
    ledger.put_scores(micro.token_index[places], scores)
    ledger.put_terms(micro, terms)


def ledger_rows(groups: Sequence[Group]) -> tuple[LedgerRow, ...]:
    """Of every slot: in flight, ready, trained."""
    ledger = Ledger(lambda: NOON)
    for group in groups:
        for member in group.members:
            trajectory = member.trajectory
            ledger.enter(
                SlotChange(
                    group_id=trajectory.group_id,
                    slot=trajectory.slot,
                    attempt=0,
                    state="in_flight",
                    task=trajectory.task,
                    step=1,
                    policy_version=0,
                )
            )
    for state in ("ready", "trained"):
        for group in groups:
            for member in group.members:
                ledger.enter(member_change(member, state, step=1, version=0))
    ledger.balance()
    return ledger.take_rows()


def told(groups: Sequence[Group], ledger: Sequence[LedgerRow], receipts: Sequence[Receipt]) -> tuple[Metric, ...]:
    members = [m for group in groups for m in group.members]
    episodes = StepEpisodes(
        members=members,
        others=(),
        success_at=1.0,
        groups=groups,
        ledger=ledger,
        graders=frozenset({"exact"}),
        num_useful=len({receipt.trajectory_id for receipt in receipts if receipt.influence > 0}),
    )
    clock = StepClock(collect_s=1.0, learn_s=1.0, publish_s=0.1, save_s=0.1, parts=PartTimes(seconds={}))
    return step_metrics(1, episodes, balance={"trained": len(members)}, clock=clock, now=NOON)


def tiny_learner() -> CausalLearner:
    """Two layers of the default recipe's size."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=48,
        intermediate_size=256,
    )
    settings = LearnerSettings(optimizer=OptimizerSettings(schedule=Schedule(learning_rate=1e-4)), token_budget=BUDGET)
    return make_learner(Qwen3ForCausalLM(config), settings)


def learner_step(groups: Sequence[Group], terms: StageTerms, learner: CausalLearner) -> Spent:
    spent = Spent()
    batch = planned(groups, terms, spent)
    outcome = spent.on("train", learner.train, batch, terms.objective, first_update=1)
    for plan, update in ((done.plan, done.outcome) for done in outcome.updates):
        spent.on("receipts", receipts_of, plan, update, terms.objective)
        spent.on("metrics of the update", update_metrics, plan, update, terms.objective, now=NOON)
    return spent


@dataclass
class Cell:
    """Repetitions of one shape."""

    tokens: int
    spent: list[Spent] = field(default_factory=list[Spent])

    def per_token(self, part: str | None = None) -> list[float]:
        """Microseconds a token, of each repetition."""
        return [1e6 * (s.total if part is None else s.seconds[part]) / self.tokens for s in self.spent]


def measured(shapes: Sequence[Shape], step: Callable[[Sequence[Group]], Spent], rounds: int) -> list[Cell]:
    """All shapes in turn, as often as asked; episodes are made beforehand, and made anew for the largest ones."""
    cells = [Cell(0) for _ in shapes]
    for number in range(rounds):
        for cell, shape in zip(cells, shapes, strict=True):
            groups = made_groups(shape)
            cell.tokens = num_tokens_of(groups)
            gc.collect()
            cell.spent += [step(groups) for _ in range(max(1, min(5, 20_000 // shape.num_tokens)))]
            total = statistics.median(cell.per_token())
            print(f"round {number + 1}: {shape} {total:.2f} µs a token", file=sys.stderr, flush=True)
            del groups
    return cells


def slopes(cells: Sequence[Cell]) -> list[float]:
    """The exponent by least squares on logarithms, one for each round; where there are enough, without the least."""
    cells = cells[1:] if len(cells) > 2 else cells
    rounds = min(len(cell.spent) for cell in cells)
    found: list[float] = []
    for number in range(rounds):
        places = [math.log(cell.tokens) for cell in cells]
        costs = [math.log(cell.tokens * cell.per_token()[-1 - number]) for cell in cells]
        found.append(float(np.polyfit(places, costs, 1)[0]))
    return found


def row(what: str, cell: Cell, over: Cell, part: str | None = None) -> Row:
    """Cost a token of a cell or of a part of it, and its ratio to the whole cost of another."""
    values, base = cell.per_token(part), statistics.median(over.per_token())
    return Row(
        what=what,
        ours=statistics.median(values),
        peer=None,
        ratio=statistics.median(values) / base,
        low=min(values) / base,
        high=max(values) / base,
        unit="µs/token",
    )


def asked(what: str, values: Sequence[float], target: float) -> Row:
    """A figure without a unit that is to be at most so large."""
    middle = statistics.median(values)
    return Row(
        what=what,
        ours=None,
        peer=None,
        ratio=middle,
        low=min(values),
        high=max(values),
        target=target,
        target_side="at_most",
    )


def compared(what: str, cells: Sequence[Cell], names: Sequence[int]) -> list[Row]:
    """Cost a token of each cell, and that of the dearest over that of the cheapest."""
    middles = [statistics.median(cell.per_token()) for cell in cells]
    rows = [
        row(f"host work a token, {what} {name}, and over {names[0]}", cell, cells[0])
        for name, cell in zip(names, cells, strict=True)
    ]
    return [*rows, asked(f"host work a token, dearest over cheapest {what}", [max(middles) / min(middles)], SPREAD)]


def part_rows(cell: Cell) -> list[Row]:
    """What the parts of the largest step take, the dearest first."""
    parts = sorted(cell.spent[0].seconds, key=lambda part: -statistics.median(cell.per_token(part)))
    return [row(f"of a step of {cell.tokens:,} tokens, and its share: {part}", cell, cell, part) for part in parts]


def host_rows(options: argparse.Namespace) -> list[Row]:
    terms = default_terms()

    def step(groups: Sequence[Group]) -> Spent:
        return host_step(groups, terms)

    sizes = [size for size in SIZES if size <= options.largest]
    by_size = measured([Shape(num_tokens=size) for size in sizes], step, options.rounds)
    rows = [
        row(f"host work a token, step of {size:,} tokens, and over the largest", cell, by_size[-1])
        for size, cell in zip(sizes, by_size, strict=True)
    ]
    rows.append(asked("exponent of host work over tokens", slopes(by_size), EXPONENT))
    rows += part_rows(by_size[-1])
    tokens = min(COMPARED_TOKENS, options.largest)
    by_group = measured([Shape(num_tokens=tokens, group_size=g) for g in GROUP_SIZES], step, options.rounds)
    rows += compared("groups of", by_group, GROUP_SIZES)
    by_source = measured([Shape(num_tokens=tokens, num_sources=n) for n in SOURCES], step, options.rounds)
    return [*rows, *compared("sources", by_source, SOURCES)]


def learner_rows(options: argparse.Namespace) -> list[Row]:
    terms, learner = default_terms(), tiny_learner()
    sizes = [size for size in SIZES if size <= options.learner]
    cells = measured([Shape(num_tokens=size) for size in sizes], lambda groups: learner_step(groups, terms, learner), 1)
    rows = [
        row(f"step with a learner, {size:,} tokens, and over the largest", cell, cells[-1])
        for size, cell in zip(sizes, cells, strict=True)
    ]
    return [*rows, asked("exponent of a step with a learner over tokens", slopes(cells), EXPONENT)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="tokens of the largest step")
    parser.add_argument("--learner", type=int, default=100_000, help="tokens of the largest step with a learner")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    # As a run does when it begins.
    spare_imported_objects()
    rows = [*cut_rows(default_terms()), *host_rows(options)]
    if options.learner >= SIZES[1]:
        rows += learner_rows(options)
    print("\n".join(table(rows)))
    if options.json:
        about = {"machine": machine(), "versions": versions("torch", "numpy", "pyarrow"), "threads": 1}
        write_report(Report(name="scale", rows=tuple(rows), about=about), options.json)


if __name__ == "__main__":
    main()
