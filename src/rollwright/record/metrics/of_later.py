"""Metrics that nothing makes, each with the room that would, and why it does not."""

from typing import Final

from rollwright.record.metrics.entry import MetricEntry

__all__ = ["OF_LATER"]

OF_LATER: Final[tuple[MetricEntry, ...]] = (
    MetricEntry(
        "value/loss",
        "loss of the critic",
        "1",
        later="learner",
        direction="lower",
        note="no learner trains a critic: objectives that need values are refused, and there is no loss to write",
    ),
    MetricEntry(
        "moe/router_load",
        "coefficient of variation, maximum over mean, and cold share of a layer's experts",
        "1",
        later="learner",
        labels=("layer", "stat"),
        note="no model with routed experts is trained; one run elsewhere without a frozen router: CV .78 to 2.0, peak "
        "6 to 16 times the mean, half of the experts cold",
        direction="lower",
    ),
    MetricEntry(
        "env/kv_replay_fail",
        "replays of a cache that gave other tokens",
        "fraction",
        later="engines",
        direction="lower",
        alarm="above 0",
        note="no engine replays a cache and tells: the deterministic one proves at its start that caches made again "
        "are equal to the bit, or refuses; mismatch/logp_abs holds every sampled token to the learner's",
    ),
)
