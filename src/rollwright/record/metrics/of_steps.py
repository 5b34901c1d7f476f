"""Metrics of a step: its batch before any update, its groups, its slots, probes and time."""

from typing import Final

from rollwright.record.metrics.entry import STRATA, MetricEntry

__all__ = ["OF_STEPS"]

_BATCH: Final = "rollwright.batches.metrics:batch_metrics"
_LAGS: Final = "rollwright.algorithms.diagnostics.token_metrics:lag_diagnostics"
_GROUPS: Final = "rollwright.algorithms.diagnostics.group_metrics:group_diagnostics"
_MIX: Final = "rollwright.runtime.mixing:SourceMix"
_STEP: Final = "rollwright.runtime.metrics:step_metrics"
_LEARN: Final = "rollwright.runtime.learning:reference_metrics"
_QUEUE: Final = "rollwright.runtime.learning:queue_metrics"
_PROMPTS: Final = "rollwright.runtime.prompt_metrics:PromptWatch"
_PROBES: Final = "rollwright.runtime.probes:probe_metrics"

OF_STEPS: Final[tuple[MetricEntry, ...]] = (
    MetricEntry(
        "stale/lag",
        "mean and maximum age of trained tokens",
        "steps",
        _LAGS,
        labels=("stat",),
        strata=STRATA,
        direction="lower",
        alarm="above the run's largest lag",
    ),
    MetricEntry("stale/lag_hist", "trained tokens of each age", "tokens", _LAGS, labels=("lag",)),
    MetricEntry(
        "stale/num_versions", "versions that sampled the trained tokens", "count", _LAGS, known_as=("n_versions",)
    ),
    MetricEntry(
        "stale/dropped",
        "share of a source's eligible tokens that age alone withheld",
        "fraction",
        _BATCH,
        labels=("source",),
        known_as=("stale/dropped_stale",),
        direction="lower",
    ),
    MetricEntry(
        "data/withheld_rows",
        "rows out of numerator and denominator",
        "count",
        _BATCH,
        labels=("reason",),
        direction="lower",
    ),
    MetricEntry("mask/eligible_tokens", "tokens that the objective may train, before withholding", "count", _BATCH),
    MetricEntry("mask/empty_rows", "rows without an eligible token", "count", _BATCH, direction="lower"),
    MetricEntry(
        "mask/observation_grad",
        "trained tokens that the policy did not sample, or that nothing predicts",
        "count",
        _BATCH,
        direction="lower",
        alarm="above 0",
    ),
    MetricEntry(
        "reward/zero_var_frac",
        "share of groups of two or more scored episodes that have one reward level, of groups with a score",
        "fraction",
        _GROUPS,
        labels=("when",),
        note="says nothing of the optimizer: KL, entropy and weight decay still act; before_filter: of all sampled",
        direction="lower",
    ),
    MetricEntry(
        "reward/all_right", "share of groups at one level, at or above success", "fraction", _GROUPS, labels=("when",)
    ),
    MetricEntry(
        "reward/all_wrong", "share of groups at one level, below success", "fraction", _GROUPS, labels=("when",)
    ),
    MetricEntry(
        "reward/no_baseline_frac", "share of groups with one scored episode", "fraction", _GROUPS, direction="lower"
    ),
    MetricEntry(
        "value/explained_var",
        "1 − Var(R − V)/Var(R) over trained tokens",
        "1",
        _BATCH,
        note="pretrain the critic until it is flat",
        direction="higher",
    ),
    MetricEntry(
        "mismatch/token_ids",
        "greedy ids equal on fixed contexts",
        "bool",
        _PROBES,
        direction="higher",
        alarm="any difference",
    ),
    MetricEntry(
        "mismatch/topk_identity", "share of probes with the same k best tokens", "fraction", _PROBES, direction="higher"
    ),
    MetricEntry(
        "mismatch/greedy_match", "share of probes with the same best token", "fraction", _PROBES, direction="higher"
    ),
    MetricEntry(
        "mismatch/probe_logit_abs",
        "largest |Δ logit| of engine and learner on fixed contexts, each logit over its position's best",
        "1",
        _PROBES,
        direction="lower",
        alarm="gate",
        note="null: not finite",
    ),
    MetricEntry(
        "mismatch/probe_logit_mean",
        "mean over positions of the largest |Δ logit| of the tokens that both name",
        "1",
        _PROBES,
        direction="lower",
        alarm="gate",
        note="null: not finite",
    ),
    MetricEntry(
        "mismatch/probe_logp_abs",
        "largest |Δ log p| of engine and learner on fixed contexts, of given and best tokens",
        "nat",
        _PROBES,
        direction="lower",
        alarm="gate",
        note="past its bound the run warns or stops; null: not finite",
    ),
    MetricEntry(
        "stale/queue_age",
        "from an episode's end to the training of its batch, mean and longest",
        "s",
        _QUEUE,
        labels=("stat",),
        direction="lower",
    ),
    MetricEntry(
        "mask/rewards_moved",
        "rewards of turns that stand behind a token which the policy did not sample, so that another one is paid",
        "count",
        _BATCH,
        direction="lower",
    ),
    MetricEntry(
        "ptgs/temperature",
        "rows by the temperature that their tokens were drawn at",
        "count",
        _BATCH,
        labels=("bucket",),
    ),
    MetricEntry(
        "ptgs/fallback_rows",
        "rows with trained tokens that have no temperature",
        "count",
        _BATCH,
        direction="lower",
        alarm="above 0: ids do not match",
    ),
    MetricEntry("data/slots", "slots of the run by state of the ledger", "slots", _STEP, labels=("state",)),
    MetricEntry(
        "data/proposed",
        "groups dispatched since the batch before",
        "groups",
        _MIX,
        labels=("source",),
        note="the mix of what is accepted must be the target's",
    ),
    MetricEntry("data/completed", "groups of which every slot ended", "groups", _MIX, labels=("source",)),
    MetricEntry("data/accepted", "groups of the batch", "groups", _MIX, labels=("source",)),
    MetricEntry("data/filtered", "groups without contrast or with too few members", "groups", _MIX, labels=("source",)),
    MetricEntry("data/expired", "groups over the largest lag", "groups", _MIX, labels=("source",), direction="lower"),
    MetricEntry(
        "data/requeued", "groups that are dispatched again", "groups", _MIX, labels=("source",), direction="lower"
    ),
    MetricEntry("data/token_share", "share of the batch's action tokens", "fraction", _MIX, labels=("source",)),
    MetricEntry(
        "sys/duplicates_refused",
        "deliveries that had been taken before",
        "count",
        "rollwright.runtime.collected_metrics:duplicates_refused",
        direction="lower",
        alarm="one of them trained",
    ),
    MetricEntry(
        "time/collect",
        "waiting for the batch: rollout and verifying",
        "s",
        _STEP,
        known_as=("sys/rollout", "sys/verify"),
        direction="lower",
    ),
    MetricEntry("time/learn", "learner's part of the step", "s", _STEP, known_as=("sys/learn",), direction="lower"),
    MetricEntry(
        "time/part",
        "a part of the run (engine, environment, verifiers, learner, loop) was busy, syncing, starved or blocked; the "
        "loop is busy while its thread has a processor",
        "s",
        _STEP,
        labels=("part", "state"),
        known_as=("sys/idle",),
        note="the part that is busy longest is the bottleneck; the states of each part add up to time/wall",
    ),
    MetricEntry(
        "time/wall",
        "from the moment at which the step before was learned to that of this one",
        "s",
        _STEP,
        direction="lower",
        note="an evaluation between them included",
    ),
    MetricEntry(
        "time/unattributed",
        "part of time/wall in which no part of the run did anything, the loop's thread and the disk neither",
        "s",
        _STEP,
        direction="lower",
    ),
    MetricEntry(
        "time/reference",
        "scoring the step's tokens under the frozen reference that only metrics read; part of time/learn",
        "s",
        _LEARN,
        direction="lower",
    ),
    MetricEntry(
        "memory/reference", "weights of that reference, beside those that train", "bytes", _LEARN, direction="lower"
    ),
    MetricEntry("time/save", "waiting until the step before is written", "s", _STEP, direction="lower"),
    MetricEntry(
        "time/publish",
        "giving weights to the engine",
        "s",
        _STEP,
        known_as=("sys/weight_sync_s", "sys/sync"),
        direction="lower",
    ),
    MetricEntry(
        "sys/accepted_per_gpu_hour",
        "trained episodes over the hours of the step times its accelerators; per machine hour where it has none",
        "1/h",
        _STEP,
        labels=("per",),
        direction="higher",
        note="the headline; the label says which hour, and two kinds of hour are not compared",
    ),
    MetricEntry(
        "sys/useful_per_gpu_hour",
        "the same of trained episodes with a token whose |weight·correction·advantage| is above 0",
        "1/h",
        _STEP,
        labels=("per",),
        direction="higher",
    ),
    MetricEntry("sys/tokens_s", "action tokens of the batch over time/collect", "tokens/s", _STEP, direction="higher"),
    MetricEntry(
        "sys/restore_s",
        "taking the checkpoint back that the command began with, at its first step",
        "s",
        "rollwright.runtime.collected_metrics:restore_seconds",
        direction="lower",
    ),
    MetricEntry(
        "sys/watchdog_restarts",
        "parts that died or hung and were made again since the step before",
        "count",
        "rollwright.runtime.collected_metrics:watchdog_restarts",
        direction="lower",
    ),
    MetricEntry(
        "data/unique_prompt_clusters",
        "clusters of like prompts in the batch: four fifths of their runs of five characters in common",
        "count",
        _PROMPTS,
        direction="higher",
    ),
    MetricEntry(
        "data/contamination",
        "prompts of the batch that stand in the held-out set: equal, or with a run of 13 words of it",
        "count",
        _PROMPTS,
        labels=("kind",),
        direction="lower",
        alarm="above 0",
    ),
)
