"""From the objective's configuration to a composition of the library's parts."""

from rollwright.recipes.build.objective.composition import Sizes, build_objective, compose, refuse_untrainable

__all__ = ["Sizes", "build_objective", "compose", "refuse_untrainable"]
