"""Asynchrony: M107 to M114.

v is the policy version that sampled a token, V the one that stands at the update, B a batch's slots, G a group's, η the
largest lag.
"""

from typing import Final

from rollwright.algorithms.catalogue.entries import Method, Part

__all__ = ["METHODS", "PARTS"]

_FAMILY: Final = "staleness"

METHODS: Final[tuple[Method, ...]] = (
    Method(
        id="M107",
        name="lag",
        family=_FAMILY,
        formula="lag_t = V − v_t; of a row: oldest, mean, newest, number of versions",
        source="arXiv:2505.24298 (AReaL)",
        where=("rollwright.algorithms.staleness.lag:row_lag", "rollwright.algorithms.staleness.lag:token_lags"),
    ),
    Method(
        id="M108",
        name="admission",
        family=_FAMILY,
        formula="accepted + running + G ≤ (version + 1 + η)·B",
        source="arXiv:2505.24298 (AReaL)",
        where=("rollwright.runtime.admission:AdmissionRule",),
        note="AReaL admits single rollouts, here whole groups: group_size=1 gives theirs.",
    ),
    Method(
        id="M109",
        name="stale rows and tokens",
        family=_FAMILY,
        formula="keep oldest (or mean) lag ≤ η, or each token of lag ≤ η",
        source="the report on DeepSeek V4.1; arXiv:2505.24298 (AReaL)",
        where=(
            "rollwright.algorithms.staleness.lag:rows_within",
            "rollwright.algorithms.staleness.lag:tokens_within",
            "rollwright.batches.drafting:is_stale",
        ),
        undisclosed={"max_lag": "DeepSeek V4.1"},
    ),
    Method(
        id="M110",
        name="weights that arrive in mid-rollout",
        family=_FAMILY,
        formula="drain: 1 version; continue: 2, old cache; recompute: 2, prefix + generated read again",
        source="arXiv:2505.24298 (AReaL), arXiv:2509.19128 (PipelineRL)",
        where=("rollwright.algorithms.staleness.weight_swap:swap_effects", "rollwright.engines.embedded.engine"),
    ),
    Method(
        id="M111",
        name="incomplete groups",
        family=_FAMILY,
        formula="drop where survivors < f·G, else train on the survivors' baseline, or pad with A = 0",
        source="the report on GLM-5",
        where=("rollwright.algorithms.staleness.incomplete_groups:fate_of_group", "rollwright.runtime.dispatcher"),
        undisclosed={"min_fraction": "GLM-5"},
    ),
    Method(
        id="M112",
        name="version of each token",
        family=_FAMILY,
        formula="runs (version, start, stop) that cover every token once",
        source="arXiv:2505.24298 (AReaL)",
        where=("rollwright.algorithms.staleness.version_runs:expand_versions", "rollwright.batches.streams"),
    ),
    Method(
        id="M113",
        name="streaming fraction",
        family=_FAMILY,
        formula="batch − ⌊(1 − α)·batch⌋ by the newest policy, the rest continued from snapshots",
        source="arXiv:2504.13914 (Seed1.5-Thinking)",
        where=("rollwright.algorithms.sampling.batch_shares:streaming_share",),
    ),
    Method(
        id="M114",
        name="exactly once",
        family=_FAMILY,
        formula="one acceptance for each (rollout, attempt)",
        source="public reports of duplicated and lost rollouts; the abstract of MIPU",
        where=(
            "rollwright.algorithms.staleness.acceptance:accept_once",
            "rollwright.algorithms.staleness.candidate_gate:GapGate",
            "rollwright.runtime.ledger",
        ),
        undisclosed={"metric": "the abstract of MIPU"},
        note="a run's own account is the ledger; GapGate accepts a candidate whose gap to the engine shrank.",
    ),
)

PARTS: Final[tuple[Part, ...]] = ()
