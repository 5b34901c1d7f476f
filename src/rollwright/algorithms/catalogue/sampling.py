"""Data and sampling rules: M94 to M106.

p is a pass rate, c its successes of n attempts, G a group's attempts, T a temperature.
"""

from typing import Final

from rollwright.algorithms.catalogue.entries import Method, Part
from rollwright.algorithms.credit.truncation import exclude_truncated, mask_truncated, punish_truncated

__all__ = ["METHODS", "PARTS"]

_FAMILY: Final = "sampling"

METHODS: Final[tuple[Method, ...]] = (
    Method(
        id="M94",
        name="dynamic sampling",
        family=_FAMILY,
        formula="keep max R ≠ min R; P(contrast) = 1 − p^G − (1 − p)^G",
        source="arXiv:2503.14476 (DAPO)",
        where=(
            "rollwright.algorithms.sampling.dynamic_sampling:DynamicBatch",
            "rollwright.algorithms.sampling.dynamic_sampling:groups_to_sample",
            "rollwright.algorithms.sampling.attempt_chances:chance_of_contrast",
            "rollwright.algorithms.sampling.attempt_chances:expected_groups",
        ),
        note="slime tests std > 1e-6 where the range is tested here, and fills a short batch with what it has: "
        "at_cap='best_available'.",
    ),
    Method(
        id="M95",
        name="pass-rate filter",
        family=_FAMILY,
        formula="keep lo < c/n < hi",
        source="arXiv:2505.22312 (Skywork-OR1), arXiv:2505.16400 (AceReason)",
        where=("rollwright.algorithms.sampling.pass_rates:pass_rate_within",),
    ),
    Method(
        id="M96",
        name="Gaussian curriculum",
        family=_FAMILY,
        formula="w ∝ exp(−(p − μ)²/2σ²)",
        source="arXiv:2505.00949 (Llama-Nemotron)",
        where=(
            "rollwright.algorithms.sampling.pass_rates:gaussian_weights",
            "rollwright.algorithms.sampling.pass_rates:low_likelihood_weights",
        ),
        undisclosed={
            "center": "Llama-Nemotron",
            "width": "Llama-Nemotron",
            "exponent": "the abstract on negative interference in RLVR",
        },
        note="low_likelihood_weights, w ∝ (1 − p)^a, is the same seat with a weight that falls with the pass rate; its "
        "form is ours.",
    ),
    Method(
        id="M97",
        name="early-exit probe",
        family=_FAMILY,
        formula="G attempts where lo ≤ hits/G_early ≤ hi, else G_early",
        source="the report on MAI-Thinking-1",
        where=("rollwright.algorithms.sampling.pass_rates:attempts_after_probe",),
    ),
    Method(
        id="M98",
        name="resample on correct",
        family=_FAMILY,
        formula="penalty = errors/calls + min(1, (answers − 1)/turns); successes kept ∝ 1/max(penalty, ε)",
        source="arXiv:2508.20722 (rStar2-Agent)",
        where=(
            "rollwright.algorithms.sampling.resample_on_correct:trace_penalty",
            "rollwright.algorithms.sampling.resample_on_correct:inverse_penalty_chances",
            "rollwright.algorithms.sampling.resample_on_correct:resample_on_correct",
        ),
        undisclosed={"floor": "rStar2-Agent"},
    ),
    Method(
        id="M99",
        name="partial rollouts",
        family=_FAMILY,
        formula="P(any of K rows unfinished) = 1 − (1 − p)^K",
        source="arXiv:2509.18521 (APRIL), arXiv:2501.12599 (Kimi k1.5), arXiv:2505.24298 (AReaL)",
        where=("rollwright.algorithms.sampling.attempt_chances:chance_of_any", "rollwright.rollout.groups"),
        note="keeping and resuming prefixes is protocol: tokens, log-probabilities and versions are those of sampling, "
        "and the environment needs a snapshot or a replay.",
    ),
    Method(
        id="M100",
        name="posterior-tempered group sampling",
        family=_FAMILY,
        formula="p̂ ~ Beta(2q + s, 2(1 − q) + f); T = T_ref·τ^h, h = (q − p̂)/q if p̂ ≤ q else (q − p̂)/(1 − q)",
        source="the controller that was published with the sharpening tax",
        where=(
            "rollwright.algorithms.sampling.pivot_temperature:PivotTemperatures",
            "rollwright.algorithms.sampling.pivot_temperature:temperature_of_rate",
            "rollwright.algorithms.sampling.pivot_temperature:beta_parameters",
            "rollwright.algorithms.sampling.pivot_temperature:discount_counts",
            "rollwright.algorithms.sampling.ramps:geometric_ramp",
        ),
        note="a draw is made from seed, task and its number, so that nothing depends on the order of tasks; the public "
        "code saves the state of one generator.",
    ),
    Method(
        id="M101",
        name="temperature schedule",
        family=_FAMILY,
        formula="T = T₀ + (T₁ − T₀)·step/total",
        source="arXiv:2505.16400 (AceReason); the linear form is ours",
        where=("rollwright.algorithms.sampling.ramps:linear_ramp",),
    ),
    Method(
        id="M102",
        name="rollout budget",
        family=_FAMILY,
        formula="P(any success) = 1 − (1 − p)^K ≈ K·p while K·p ≪ 1",
        source="arXiv:2510.01180 (BroRL), arXiv:2505.24864 (ProRL)",
        where=(
            "rollwright.algorithms.sampling.attempt_chances:chance_of_any",
            "rollwright.algorithms.sampling.attempt_chances:expected_successes",
        ),
    ),
    Method(
        id="M103",
        name="deficit mixer",
        family=_FAMILY,
        formula="next = argmax(target·Σ accepted − accepted)",
        source="the report on MiMo-V2.6",
        where=(
            "rollwright.algorithms.sampling.deficit_mixer:DeficitMixer",
            "rollwright.algorithms.sampling.deficit_mixer:shares",
        ),
    ),
    Method(
        id="M104",
        name="replay",
        family=_FAMILY,
        formula="min(⌊fraction·batch⌋, pool) stored successes, fresh rollouts for the rest",
        source="arXiv:2507.07451 (RLEP), arXiv:2506.09340 (RePO)",
        where=("rollwright.algorithms.sampling.batch_shares:replay_share",),
        undisclosed={"fraction": "RLEP and RePO"},
    ),
    Method(
        id="M105",
        name="treatments of truncated episodes",
        family=_FAMILY,
        formula="negative: R = 0; mask: A = 0 after credit; exclude: out of the baseline too",
        source="arXiv:2505.22312 (Skywork-OR1); public: open-r1; arXiv:2503.14476 (DAPO)",
        where=(
            "rollwright.algorithms.credit.truncation:punish_truncated",
            "rollwright.algorithms.credit.truncation:mask_truncated",
            "rollwright.algorithms.credit.truncation:exclude_truncated",
        ),
        note="whether DAPO leaves masked rows in the baseline is not disclosed: mask leaves them, exclude does not. "
        "Resuming is the runtime's.",
    ),
    Method(
        id="M106",
        name="infrastructure failures",
        family=_FAMILY,
        formula="R = NaN, A = 0, and the attempt leaves the statistics of its group",
        source="public reports of graders and sandboxes that failed as rewards",
        where=(
            "rollwright.algorithms.credit.groups:group_statistics",
            "rollwright.verifiers.composition:Composition",
            "rollwright.runtime.dispatcher",
        ),
    ),
)

PARTS: Final[tuple[Part, ...]] = (
    Part(make=punish_truncated, role="credit", method="M105", formula="{credit} with R = {reward} where truncated"),
    Part(make=mask_truncated, role="credit", method="M105", formula="{credit}, 0 where truncated"),
    Part(make=exclude_truncated, role="credit", method="M105", formula="{credit} over the rows that are not truncated"),
)
