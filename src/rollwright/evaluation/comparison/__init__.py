"""Two runs or more, compared where that can be done: paired by task, under one digest, at budgets that are told."""

from rollwright.evaluation.comparison.comparing import Apart, Beside, Comparison, Contrast, compare_runs, read_arm
from rollwright.evaluation.comparison.manifests import SECTIONS, ManifestField, folded_fields
from rollwright.evaluation.comparison.paired import Difference, Pair, Tax, differences, tax_of
from rollwright.evaluation.comparison.selection import Arm, BudgetLine, ComparedRun
from rollwright.evaluation.comparison.spending import BUDGETS, Budget, Spending

__all__ = [
    "BUDGETS",
    "SECTIONS",
    "Apart",
    "Arm",
    "Beside",
    "Budget",
    "BudgetLine",
    "ComparedRun",
    "Comparison",
    "Contrast",
    "Difference",
    "ManifestField",
    "Pair",
    "Spending",
    "Tax",
    "compare_runs",
    "differences",
    "folded_fields",
    "read_arm",
    "tax_of",
]
