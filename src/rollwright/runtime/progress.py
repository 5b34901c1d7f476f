"""Where a run stands: what a checkpoint holds beside weights and optimizer."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.ledger import LedgerBalance
from rollwright.runtime.parts import CollectorState

__all__ = ["EvaluationPoint", "Progress"]

_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPoint:
    """One evaluation, as the final table shows it."""

    step: int
    success: float | None
    """None where every attempt went unscored."""
    low: float | None
    high: float | None
    num_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The counters of a run after a finished step."""

    step: int
    update: int
    stage: int
    """Index of the stage that goes on."""
    stage_step: int
    """Steps finished in it."""
    next_group: int
    collector: CollectorState
    balance: LedgerBalance
    controllers: tuple[Mapping[str, float], ...]
    """State of each controller and then of each memory of the stage's objective, in the order of its parts."""
    evaluations: tuple[EvaluationPoint, ...]

    def to_json(self) -> str:
        """As text for the checkpoint."""
        return json.dumps({"schema_version": _SCHEMA_VERSION, **asdict(self)}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        """Read what `to_json` wrote.

        Raises:
            RuntimeRunError: for another schema.
        """
        tree = json.loads(text)
        version = tree.pop("schema_version", None)
        if version != _SCHEMA_VERSION:
            raise RuntimeRunError(
                f"the checkpoint's state has schema version {version}; this rollwright reads {_SCHEMA_VERSION}. Resume "
                "with the version that wrote it (manifest.json names it)."
            )
        tree["collector"] = CollectorState.from_tree(tree["collector"])
        tree["balance"] = LedgerBalance(**tree["balance"])
        tree["controllers"] = tuple(tree["controllers"])
        tree["evaluations"] = tuple(EvaluationPoint(**e) for e in tree["evaluations"])
        return cls(**tree)
