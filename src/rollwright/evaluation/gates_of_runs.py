"""The gates of a run, judged from its folder alone: whoever asks, and wherever, comes to the same verdicts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import cast

from rollwright.evaluation.gates import judge
from rollwright.evaluation.gates_declared import Gate, gates_of, rl_steps_of, what_of
from rollwright.evaluation.gates_measured import JudgedRun, measured
from rollwright.evidence import Manifest, RunFolder, connect, stored_evaluations
from rollwright.evidence.gates import GatePurpose, GateRecord
from rollwright.evidence.views import Verification
from rollwright.record.gates import GateVerdict

__all__ = ["JudgedGate", "judge_run", "records_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGate:
    """A gate of a run, with its verdict."""

    gate: Gate
    step: int
    """After which it was judged."""
    verdict: GateVerdict

    @property
    def what(self) -> str:
        """What was measured, as a person says it."""
        return what_of(self.gate.subject)


def judge_run(path: Path, step: int | None = None, *, verification: Verification = "digests") -> tuple[JudgedGate, ...]:
    """Judge the gates that a run was begun with; a pure function of its committed rows.

    Args:
        path: a run folder; it may be being written.
        step: after which; what came later is not looked at. None: the newest finished one.
        verification: how the committed files are compared first.

    Returns:
        In the order declared; empty where the run has no gates.

    Raises:
        EvidenceError: for a folder that is no run, and for gates of another version.
    """
    folder = RunFolder.open(path)
    gates = gates_of(folder.manifests[0])  # as it began, whatever a later segment says
    if not gates:
        return ()
    at = max((c.step for c in folder.commits if c.kind == "step"), default=0) if step is None else step
    began = folder.manifests[0]
    protocol = began.evaluation.protocol_sha256
    evaluations = tuple(one for one in stored_evaluations(folder) if one.protocol_sha256 == protocol)
    rewarded_at = _number(began, "verifier.success_threshold", 1.0)
    with connect(path, verification=verification) as connection:
        run = JudgedRun(
            connection=connection,
            step=at,
            rl=rl_steps_of(folder.manifest),
            protocol_sha256=protocol,
            protocols=_protocols(began),
            evaluations=evaluations,
            success_at=_number(began, "evaluation.success_threshold", rewarded_at),
            level=_number(began, "evaluation.level", 0.95),
        )
        return tuple(
            JudgedGate(gate=gate, step=at, verdict=judge(gate.name, gate.bound, measured(run, gate.subject)))
            for gate in gates
        )


def records_of(judged: Sequence[JudgedGate], purpose: GatePurpose, at: datetime) -> tuple[GateRecord, ...]:
    """What `gates.json` keeps of verdicts.

    Args:
        judged: of one run.
        purpose: why they were judged.
        at: now.
    """
    return tuple(
        GateRecord(
            at=at,
            step=one.step,
            purpose=purpose,
            what=one.what,
            verdict=one.verdict,
            label=one.gate.label,
            limit_source=one.gate.source,
        )
        for one in judged
    )


def _protocols(began: Manifest) -> dict[str, str]:
    further = {key.removeprefix("protocol "): one for key, one in began.digests.items() if key.startswith("protocol ")}
    return {began.evaluation.protocol: began.evaluation.protocol_sha256, **further}


def _number(manifest: Manifest, key: str, default: float) -> float:
    found = next((one.value for one in manifest.configuration if one.key == key), None)
    return default if found is None else float(cast("float", json.loads(found)))
