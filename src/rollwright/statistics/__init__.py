"""Estimators, intervals and tests over counts and scores; NumPy only. What is undefined is None, never a number."""

from rollwright.statistics.clustered import (
    bootstrap_interval,
    cluster_standard_error,
    clustered_interval,
    exhaustive_bootstrap_interval,
    task_means,
)
from rollwright.statistics.coverage import TaskMean, avg_at_n, mean_over_tasks, pass_at_k, pass_hat_k
from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.paired import PairedDifference, compare_paired, mcnemar_exact, paired_bootstrap_interval
from rollwright.statistics.proportions import Interval, normal_quantile, wilson_interval

__all__ = [
    "Interval",
    "PairedDifference",
    "StatisticsError",
    "TaskMean",
    "avg_at_n",
    "bootstrap_interval",
    "cluster_standard_error",
    "clustered_interval",
    "compare_paired",
    "exhaustive_bootstrap_interval",
    "mcnemar_exact",
    "mean_over_tasks",
    "normal_quantile",
    "paired_bootstrap_interval",
    "pass_at_k",
    "pass_hat_k",
    "task_means",
    "wilson_interval",
]
