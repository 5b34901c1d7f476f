"""A run whose model, tools, verifiers and tasks wrote whatever could harm who looks at it."""

import dataclasses
from datetime import timedelta
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rollwright.evidence import CommitRows, Event, RunFolder
from rollwright.evidence.gates import GateRecord, record_gates
from rollwright.record import (
    RewardComponent,
    ScoredTrajectory,
    Segment,
    Task,
    ToolCall,
    ids,
    logprobs,
)
from rollwright.record.gates import Bound, GateVerdict, Measured
from tests.evidence.runs import (
    START,
    evaluation,
    ledger_row,
    manifest,
    metric,
    receipts,
    scored_trajectory,
)

SCRIPT = "<script>window.harmed = 1; document.title = 'harmed'</script>"
HANDLER = "\"'><img src=x onerror=\"window.harmed = 2\"><svg onload='window.harmed = 3'>"
ANSI = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x00\x08"
BIDI = "pay \u202eyenom on\u202c \u2066isolate\u2069 zero\u200bwidth \ufeff"
TEMPLATE = "{{ 7 * 7 }}{% for x in y %}${7*7}"
ALL = (SCRIPT, HANDLER, ANSI, BIDI, TEMPLATE)
HARM = " ".join(ALL)
HUGE = 7000
"""Tokens of one segment."""
FOLDER_NAME = "run <b onmouseover=alert(1)> & \u202eevil"


def hostile_run(parent: Path) -> Path:
    """Write the run below a folder; its own name is hostile too."""
    tokenizer = parent / "tokenizer"
    backend = _tokenizer(tokenizer)

    def tokens(text: str) -> list[int]:
        return backend.encode(text).ids

    base = manifest(run_id=f"id {SCRIPT}")
    with RunFolder.create(parent / FOLDER_NAME, base, f"# {HARM}\n", tokenizer=tokenizer) as folder:
        folder.commit(evaluation(0), at=START)
        members = [_episode(slot, tokens) for slot in range(2)]
        weight = 1 / sum(s.num_tokens for m in members for s in m.trajectory.segments if s.origin == "policy")
        folder.commit(
            CommitRows(
                kind="step",
                step=1,
                trajectories=members,
                receipts=[r for i, m in enumerate(members) for r in receipts(m, step=1, weight=weight, row=i)],
                ledger=[
                    ledger_row(m, s, step=1, rule=HARM) for s in ("in_flight", "ready", "trained") for m in members
                ],
                metrics=[
                    metric("reward/total", 0.5, step=1),
                    metric(f"odd {HANDLER}", 1.0, step=1, unit=SCRIPT, part=HARM),
                ],
            ),
            at=START + timedelta(seconds=1),
        )
        folder.record_event(Event(at=START, kind=HANDLER, text=HARM, step=1, fields={SCRIPT: HANDLER}))
        record_gates(folder.path, [_gate()])
    return parent / FOLDER_NAME


def _tokenizer(folder: Path) -> Tokenizer:
    """Byte-level BPE that has hostile pieces in its vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([HARM, "yes no maybe "] * 8, trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def _episode(slot: int, tokens) -> ScoredTrajectory:
    made = scored_trajectory(group_id=0, slot=slot, outcome=float(slot))
    trajectory = made.trajectory
    texts = (HARM, f"call {HARM}", f"result {HARM}", f"answer {SCRIPT}")
    segments: list[Segment] = []
    start = 0
    for segment, text in zip(trajectory.segments, texts, strict=True):
        held = tokens(text)
        if slot == 1 and segment.segment == 3:
            held = (held * HUGE)[:HUGE]
        scores = None if segment.behavior_logprobs is None else logprobs(-0.001 * np.arange(len(held)))
        spans = None if segment.spans is None else (dataclasses.replace(segment.spans[0], token_end=len(held)),)
        segments.append(
            dataclasses.replace(segment, token_ids=ids(held), behavior_logprobs=scores, start=start, spans=spans)
        )
        start += len(held)
    call: ToolCall = dataclasses.replace(
        trajectory.tool_calls[0],
        tool=f"tool {HANDLER}",
        arguments=HARM,
        result=HARM + "x" * 30_000,
        result_bytes=len(HARM) + 30_000,
    )
    verdict = dataclasses.replace(
        made.verdicts[0], verifier=f"verifier {SCRIPT}", revision=HANDLER, evidence=HARM, finding=HANDLER
    )
    task = Task(
        task_id=f"{HANDLER}/{SCRIPT}?&#/..",
        source=f"source {HARM}",
        revision=SCRIPT,
        split=HANDLER,
        payload=f'"{HARM}"',
    )
    return dataclasses.replace(
        made,
        trajectory=dataclasses.replace(
            trajectory, segments=tuple(segments), tool_calls=(call,), task=task, environment=SCRIPT, stage="rl"
        ),
        verdicts=(verdict,),
        reward_rule=HANDLER,
        reward_components=(RewardComponent(name=SCRIPT, value=1.0, weight=1.0),),
    )


def _gate() -> GateRecord:
    measured = Measured(value=1.0, num_items=1, source=HARM)
    verdict = GateVerdict(
        gate=HANDLER, outcome="failed", bound=Bound(side="at_most", limit=0.5), measured=measured, because=HARM
    )
    return GateRecord(at=START, step=1, purpose="alarm", what=HARM, verdict=verdict, label="I", limit_source=SCRIPT)
