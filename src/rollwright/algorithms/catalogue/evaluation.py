"""Evaluation: M125 to M134.

n attempts at a task of which c succeed, k attempts that a user would make, T tasks; P(k) is the mean of pass@k over
tasks, H an entropy in nats, C compute.
"""

from typing import Final

from rollwright.algorithms.catalogue.entries import Method, Part

__all__ = ["METHODS", "PARTS"]

_FAMILY: Final = "evaluation"
_ROOM: Final = "rollwright.statistics"

METHODS: Final[tuple[Method, ...]] = (
    Method(
        id="M125",
        name="pass@k",
        family=_FAMILY,
        formula="1 − C(n−c, k)/C(n, k), 1 where n−c < k; of a known p: 1 − (1−p)^k",
        source="arXiv:2107.03374",
        where=(
            f"{_ROOM}.coverage:pass_at_k",
            f"{_ROOM}.coverage:pass_at_k_of_rate",
            f"{_ROOM}.coverage:mean_over_tasks",
        ),
        note="1 − (1 − c/n)^k is biased low; the first k of n attempts are unbiased and waste the others.",
    ),
    Method(
        id="M126",
        name="pass^k",
        family=_FAMILY,
        formula="C(c, k)/C(n, k), 0 where c < k",
        source="arXiv:2406.12045 (τ-bench)",
        where=(f"{_ROOM}.coverage:pass_hat_k",),
    ),
    Method(
        id="M127",
        name="avg@n",
        family=_FAMILY,
        formula="c/n of each task, then the mean over tasks",
        source="usual practice",
        where=(f"{_ROOM}.coverage:avg_at_n", f"{_ROOM}.coverage:mean_over_tasks"),
        note="A pass@1 of little variance; never the coverage pass@n.",
    ),
    Method(
        id="M128",
        name="maj@k",
        family=_FAMILY,
        formula="mean over subsets of k of n answers of 1{correct has the most votes}/number of tied answers",
        source="arXiv:2203.11171",
        where=(f"{_ROOM}.voting:majority_at_k", f"{_ROOM}.voting:majority_of_all"),
        note="Counters that keep the order of insertion give a tie to the answer seen first: ties='first'.",
    ),
    Method(
        id="M129",
        name="coverage of tasks",
        family=_FAMILY,
        formula="cover@k = Σ pass@k; cover@τ = share of tasks with c/n ≥ τ",
        source="form ours, of pass@k",
        where=(
            f"{_ROOM}.task_coverage:cover_at_k",
            f"{_ROOM}.task_coverage:cover_at_rate",
            f"{_ROOM}.task_coverage:covered_by_first",
        ),
    ),
    Method(
        id="M130",
        name="Wilson interval",
        family=_FAMILY,
        formula="(p̂ + z²/2n)/(1 + z²/n) ± z·√(p̂(1−p̂)/n + z²/4n²)/(1 + z²/n)",
        source="Wilson, 1927",
        where=(f"{_ROOM}.proportions:wilson_interval",),
    ),
    Method(
        id="M131",
        name="clustered intervals",
        family=_FAMILY,
        formula="SE = sd(task means, n − 1)/√T; percentiles of means over resampled tasks, and of resampled runs",
        source="arXiv:2411.00640; Efron, 1979",
        where=(
            f"{_ROOM}.clustered:cluster_standard_error",
            f"{_ROOM}.clustered:clustered_interval",
            f"{_ROOM}.clustered:bootstrap_interval",
            f"{_ROOM}.clustered:exhaustive_bootstrap_interval",
            f"{_ROOM}.runs:crossed_bootstrap_interval",
            f"{_ROOM}.runs:nested_bootstrap_interval",
        ),
        note="√(p̂(1−p̂)/N) over all attempts takes attempts at one task for independent ones and is too small.",
    ),
    Method(
        id="M132",
        name="sharpening tax",
        family=_FAMILY,
        formula="A = Σ_{k<K} (P(K) − P(k)); S = A/((K−1)(1 − P(1))); tax = base − post",
        source="the sharpening-tax paper and its code",
        where=(
            f"{_ROOM}.sharpening:sharpening",
            f"{_ROOM}.sharpening:sharpening_tax",
            f"{_ROOM}.sharpening:sharpening_tax_intervals",
        ),
        note="The mean of each task's own S is another number than S of the mean curve.",
    ),
    Method(
        id="M133",
        name="paired comparison",
        family=_FAMILY,
        formula="mean of per-task differences ± sd/√T; one attempt a task: exact binomial of the discordant tasks",
        source="arXiv:2411.00640; McNemar, 1947",
        where=(
            f"{_ROOM}.paired:compare_paired",
            f"{_ROOM}.paired:paired_bootstrap_interval",
            f"{_ROOM}.paired:mcnemar_exact",
        ),
    ),
    Method(
        id="M134",
        name="trends",
        family=_FAMILY,
        formula="R = −a·exp(H) + b; R = R₀ + (A − R₀)/(1 + (C_mid/C)^B)",
        source="arXiv:2505.22617; arXiv:2510.13786 (ScaleRL)",
        where=(
            f"{_ROOM}.trends:entropy_law",
            f"{_ROOM}.trends:fit_entropy_law",
            f"{_ROOM}.trends:compute_curve",
        ),
    ),
)

PARTS: Final[tuple[Part, ...]] = ()
