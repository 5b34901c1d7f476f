"""Each source's share of the objective, whatever its tasks' lengths and pass rates left of it (M77)."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.denominators.plain import row_lengths
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Counting, CreditInputs, RowLengths, WeightFn
from rollwright.algorithms.rows import row_sum

__all__ = ["SourceBalance", "source_masses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBalance:
    """Scale the weights of each source so that they sum to its target: the target acts on the mass of the objective.

    Balance once: sampling by quota and weighing by target together count twice. A target whose source has no trained
    token stays unassigned; the others are not scaled up for it.
    """

    base: WeightFn
    """The denominator whose weights are scaled."""
    targets: Mapping[int, float]
    """Source (a value of `source_index`) to the sum of its weights; targets sum to at most 1."""

    def __post_init__(self) -> None:
        """Refuse targets that are no shares, and a balance of a balance."""
        if isinstance(self.base, SourceBalance):
            raise ObjectiveError("the base of a source balance is a source balance; apply one set of targets, once.")
        total = sum(self.targets.values())
        if not self.targets or min(self.targets.values()) < 0.0 or not 0.0 < total <= 1.0 + 1e-9:
            raise ObjectiveError(
                f"the targets of a source balance are {dict(self.targets)}; each is a share of the objective, at least "
                f"0, and together they are above 0 and at most 1 (here {total})."
            )

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return f"{self.base.name}_balanced"

    @property
    def counting(self) -> Counting:
        """As the base."""
        return self.base.counting

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: the base's weights, times target over mass of the token's source."""
        weights = self.base(inputs, keep)
        rows = row_lengths(inputs, keep)
        self._refuse_unnamed(rows)
        masses = source_masses(weights, inputs)
        scale = torch.zeros(len(rows.source_index), dtype=torch.float64)
        for source, mass in masses.items():
            if mass > 0.0:
                scale[rows.source_index == source] = self.targets[source] / mass
        return weights * scale.repeat_interleave(inputs.row_offsets.diff())

    def weight_sum(self, rows: RowLengths) -> float:
        """The targets of the sources that have a trained token."""
        return sum(self.targets[source] for source in _present(rows))

    def denominator(self, rows: RowLengths) -> float:
        """That of the base."""
        return self.base.denominator(rows)

    def _refuse_unnamed(self, rows: RowLengths) -> None:
        if unnamed := [source for source in _present(rows) if source not in self.targets]:
            raise ObjectiveError(
                f"sources {unnamed} have trained tokens but no target; the balance has {sorted(self.targets)}. Give "
                "every source of the run a target, 0 to train nothing of it."
            )


def source_masses(weights: Tensor, inputs: CreditInputs) -> dict[int, float]:
    """What the weights of each source sum to.

    Args:
        weights: (N,) float64.
        inputs: their rows.

    Returns:
        Source to mass, for the sources that have a trained token, ascending.
    """
    of_rows = row_sum(weights, inputs.row_offsets)
    sources = _distinct(inputs.source_index[inputs.row_offsets.diff() > 0])
    return {source: float(of_rows[inputs.source_index == source].sum()) for source in sources}


def _present(rows: RowLengths) -> list[int]:
    """Sources with a counted token, ascending."""
    return _distinct(rows.source_index[rows.num_tokens > 0])


def _distinct(index: Tensor) -> list[int]:
    """The values of (R,) int64 `index`, each once, ascending."""
    ordered = index.sort().values
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered.diff() != 0
    return [int(value) for value in ordered[is_first].unbind()]
