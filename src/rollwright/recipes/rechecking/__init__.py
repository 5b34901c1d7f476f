"""`check`, deeper: what a run says is made again by its own recipe, from its stored episodes, and compared.

episodes ──recipe's credit and weights──► advantages, weights ──┐
receipts' scores ──recipe's loss──► flags, corrections, losses ─┼── against receipts, metrics, verdicts, scores
texts ──recipe's verifiers──► verdicts, rewards ────────────────┤
contexts ──weights that stand in a checkpoint──► scores ────────┘
"""

from rollwright.recipes.rechecking.deeper import check_deeply

__all__ = ["check_deeply"]
