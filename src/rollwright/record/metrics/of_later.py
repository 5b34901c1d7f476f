"""Metrics that nothing makes yet, each with the room that makes it once it has what the metric is about."""

from typing import Final

from rollwright.record.metrics.entry import MetricEntry

__all__ = ["OF_LATER"]

OF_LATER: Final[tuple[MetricEntry, ...]] = (
    MetricEntry("value/loss", "loss of the critic", "1", later="learner", direction="lower"),
    MetricEntry("distill/forward_kl", "KL(q ‖ π) over the vocabulary", "nat", later="learner", direction="lower"),
    MetricEntry("distill/reverse_kl", "KL(π ‖ q) over the vocabulary", "nat", later="learner", direction="lower"),
    MetricEntry(
        "moe/router_load",
        "coefficient of variation, maximum over mean, and cold share of a layer's experts",
        "1",
        later="learner",
        labels=("layer", "stat"),
        note="one run without a frozen router: CV .78 to 2.0, peak 6 to 16 times the mean, half of the experts cold",
        direction="lower",
    ),
    MetricEntry(
        "env/kv_replay_fail",
        "replays of a cache that gave other tokens",
        "fraction",
        later="engines",
        direction="lower",
        alarm="above 0",
    ),
    MetricEntry(
        "env/replay_fail",
        "replays of an episode that ended otherwise",
        "fraction",
        later="environments",
        direction="lower",
        alarm="above 0",
    ),
)
