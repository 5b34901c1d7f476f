"""Metrics of a step: its batch before any update, its episodes, its slots and its time."""

from typing import Final

from rollwright.record.metrics.entry import MetricEntry

__all__ = ["OF_STEPS"]

_BATCH: Final = "rollwright.batches.metrics:batch_metrics"
_LAGS: Final = "rollwright.algorithms.diagnostics.token_metrics:lag_diagnostics"
_GROUPS: Final = "rollwright.algorithms.diagnostics.group_metrics:group_diagnostics"
_EPISODES: Final = "rollwright.runtime.episode_metrics:episode_metrics"
_MIX: Final = "rollwright.runtime.mixing:SourceMix"
_STEP: Final = "rollwright.runtime.metrics:step_metrics"
_LEARN: Final = "rollwright.runtime.learning:reference_metrics"
_PROBES: Final = "rollwright.runtime.probes:probe_metrics"

OF_STEPS: Final[tuple[MetricEntry, ...]] = (
    MetricEntry(
        "stale/lag",
        "mean and maximum age of trained tokens",
        "steps",
        _LAGS,
        labels=("stat",),
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
        "reward/total",
        "mean and standard deviation (n) over scored episodes, each once; also by source, and before_filter",
        "reward",
        _EPISODES,
        labels=("stat", "source", "when"),
        direction="higher",
        alarm="up while the held-out success falls: look for hacking",
    ),
    MetricEntry(
        "reward/component",
        "mean and standard deviation (n) of a raw part, before its weight",
        "reward",
        _EPISODES,
        labels=("component", "stat"),
        note="watch correctness, format and length apart",
    ),
    MetricEntry("reward/hist_by_prompt", "share of prompts by success rate", "fraction", _EPISODES, labels=("bucket",)),
    MetricEntry("data/unscored", "episodes of the batch without a reward", "episodes", _EPISODES, direction="lower"),
    MetricEntry(
        "data/unscored_share",
        "share of all attempts that ended without a reward, and by cause",
        "fraction",
        _EPISODES,
        labels=("cause", "source"),
        note="the causes are a grader's error or how the attempt ended; none of them is a reward of 0",
        direction="lower",
    ),
    MetricEntry("data/parked", "attempts that were parked at a limit and gone on with", "episodes", _EPISODES),
    MetricEntry(
        "sys/infra_excluded", "attempts excluded for a failure of the machinery", "count", _EPISODES, direction="lower"
    ),
    MetricEntry("terminal/reason", "share of episodes by how they ended", "fraction", _EPISODES, labels=("reason",)),
    MetricEntry(
        "terminal/attempts",
        "share of all attempts, the retried, parked and filtered ones too, by how they ended",
        "fraction",
        _EPISODES,
        labels=("reason", "source"),
    ),
    MetricEntry(
        "len/trunc_rate",
        "share of episodes that a limit cut, and by limit",
        "fraction",
        _EPISODES,
        labels=("reason",),
        direction="lower",
        alarm="rising after filtering: a known failure",
        note="one run began near 40% at 8K tokens",
    ),
    MetricEntry(
        "len/response",
        "mean, and .1, .5, .9, .99 quantiles of action tokens of an episode; also of right and of wrong ones",
        "tokens",
        _EPISODES,
        labels=("quantile", "outcome"),
        alarm="only wrong answers grow: the bias of a mean by response",
    ),
    MetricEntry("env/tool_calls", "calls of an episode, mean; of each tool", "calls", _EPISODES, labels=("tool",)),
    MetricEntry(
        "env/invalid_action", "share of calls that are no call of a tool", "fraction", _EPISODES, direction="lower"
    ),
    MetricEntry("env/tool_error", "share of calls whose tool failed", "fraction", _EPISODES, direction="lower"),
    MetricEntry("env/timeout", "share of calls that ran out of time", "fraction", _EPISODES, direction="lower"),
    MetricEntry(
        "env/violation",
        "share of episodes with a call that a rule of their world refused",
        "fraction",
        _EPISODES,
        direction="lower",
    ),
    MetricEntry("env/tool_latency", "seconds of a call, mean", "s", _EPISODES, direction="lower"),
    MetricEntry("env/steps", "turns of an episode, mean", "turns", _EPISODES),
    MetricEntry(
        "explore/repeated_traj_rate",
        "share of attempts that repeat an earlier one of their prompt token by token, mean over prompts",
        "fraction",
        _EPISODES,
        direction="lower",
        alarm="rising: an echo trap",
    ),
    MetricEntry(
        "explore/tool_choice_entropy", "entropy of the tools called at a prompt, mean over prompts", "nat", _EPISODES
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
        "mismatch/probe_logp_abs",
        "largest |Δ log p| of engine and learner on fixed contexts, of given and best tokens",
        "nat",
        _PROBES,
        direction="lower",
        alarm="gate",
        note="past its bound the run warns or stops; null: not finite",
    ),
    MetricEntry("data/slots", "slots of the run by state of the ledger", "slots", _STEP, labels=("state",)),
    MetricEntry(
        "data/proposed",
        "groups dispatched since the batch before",
        "groups",
        _MIX,
        labels=("source",),
        note="in runs with lag, filter or mixer, as all of these; the mix of what is accepted must be the target's",
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
        "a part of the run (engine, environment, verifiers, learner) was busy, syncing, starved or blocked",
        "s",
        _STEP,
        labels=("part", "state"),
        known_as=("sys/idle",),
        note="the part that is busy longest is the bottleneck",
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
    MetricEntry("sys/tokens_s", "action tokens of the batch over time/collect", "tokens/s", _STEP, direction="higher"),
)
