"""Diagnostics: M135. The metrics themselves stand in `metrics.py`.

b, o, c, f are the scores of behavior, proximal, current and reference policy; ρ is a ratio of two of them.
"""

from typing import Final

from rollwright.algorithms.catalogue.entries import Method, Part

__all__ = ["METHODS", "PARTS"]

METHODS: Final[tuple[Method, ...]] = (
    Method(
        id="M135",
        name="diagnostics",
        family="diagnostics",
        formula="mean(b − c); mean(ρ − 1 − ln ρ); mean 1{ρ ∉ [low, high]}; mean(ρ²) − 1; exp(−mean ln ρ); "
        "1 − Var(R − V)/Var(R)",
        source="usual practice; arXiv:1707.06347, arXiv:2505.24298",
        where=(
            "rollwright.algorithms.diagnostics.updates:update_diagnostics",
            "rollwright.algorithms.diagnostics.updates:stratified_diagnostics",
            "rollwright.algorithms.diagnostics.updates:group_diagnostics",
            "rollwright.algorithms.diagnostics.updates:lag_diagnostics",
            "rollwright.algorithms.diagnostics.updates:explained_variance",
        ),
        note="Two clip fractions are in use: of tokens outside the band, and of those whose gradient the clip took.",
    ),
)

PARTS: Final[tuple[Part, ...]] = ()
