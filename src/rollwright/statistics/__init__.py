"""Estimators, intervals and tests over counts and scores; NumPy only. What is undefined is None, never a number."""

from rollwright.statistics.agreement import brier_score, cohen_kappa
from rollwright.statistics.beta import (
    clopper_pearson_interval,
    incomplete_beta,
    student_p_value,
    student_quantile,
)
from rollwright.statistics.clustered import (
    bootstrap_interval,
    cluster_standard_error,
    clustered_interval,
    count_resamples,
    exhaustive_bootstrap_interval,
    task_means,
)
from rollwright.statistics.correlation import pearson, spearman
from rollwright.statistics.coverage import (
    TaskMean,
    avg_at_n,
    mean_over_tasks,
    pass_at_k,
    pass_at_k_of_rate,
    pass_hat_k,
)
from rollwright.statistics.diversity import choice_entropy, count_distinct, repeated_share
from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.paired import (
    PairedDifference,
    compare_paired,
    mcnemar_exact,
    paired_bootstrap_interval,
    paired_t_interval,
)
from rollwright.statistics.proportions import Interval, level_of, normal_quantile, wilson_interval
from rollwright.statistics.runs import crossed_bootstrap_interval, nested_bootstrap_interval
from rollwright.statistics.sharpening import (
    Sharpening,
    SharpeningTax,
    TaxIntervals,
    sharpening,
    sharpening_interval,
    sharpening_tax,
    sharpening_tax_intervals,
    task_curves,
    task_curves_of_rates,
)
from rollwright.statistics.task_coverage import CoveredTasks, cover_at_k, cover_at_rate, covered_by_first
from rollwright.statistics.trends import EntropyLaw, TrendPoint, compute_curve, entropy_law, fit_entropy_law
from rollwright.statistics.voting import Ties, majority_at_k, majority_of_all

__all__ = [
    "CoveredTasks",
    "EntropyLaw",
    "Interval",
    "PairedDifference",
    "Sharpening",
    "SharpeningTax",
    "StatisticsError",
    "TaskMean",
    "TaxIntervals",
    "Ties",
    "TrendPoint",
    "avg_at_n",
    "bootstrap_interval",
    "brier_score",
    "choice_entropy",
    "clopper_pearson_interval",
    "cluster_standard_error",
    "clustered_interval",
    "cohen_kappa",
    "compare_paired",
    "compute_curve",
    "count_distinct",
    "count_resamples",
    "cover_at_k",
    "cover_at_rate",
    "covered_by_first",
    "crossed_bootstrap_interval",
    "entropy_law",
    "exhaustive_bootstrap_interval",
    "fit_entropy_law",
    "incomplete_beta",
    "level_of",
    "majority_at_k",
    "majority_of_all",
    "mcnemar_exact",
    "mean_over_tasks",
    "nested_bootstrap_interval",
    "normal_quantile",
    "paired_bootstrap_interval",
    "paired_t_interval",
    "pass_at_k",
    "pass_at_k_of_rate",
    "pass_hat_k",
    "pearson",
    "repeated_share",
    "sharpening",
    "sharpening_interval",
    "sharpening_tax",
    "sharpening_tax_intervals",
    "spearman",
    "student_p_value",
    "student_quantile",
    "task_curves",
    "task_curves_of_rates",
    "task_means",
    "wilson_interval",
]
