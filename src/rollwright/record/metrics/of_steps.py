"""Metrics of a step: its batch before any update, its episodes, its slots and its time."""

from typing import Final

from rollwright.record.metrics.entry import EPISODE_STRATA, STRATA, MetricEntry

__all__ = ["OF_STEPS"]

_BATCH: Final = "rollwright.batches.metrics:batch_metrics"
_LAGS: Final = "rollwright.algorithms.diagnostics.token_metrics:lag_diagnostics"
_GROUPS: Final = "rollwright.algorithms.diagnostics.group_metrics:group_diagnostics"
_EPISODES: Final = "rollwright.runtime.episode_metrics:episode_metrics"
_MIX: Final = "rollwright.runtime.mixing:SourceMix"
_STEP: Final = "rollwright.runtime.metrics:step_metrics"
_LEARN: Final = "rollwright.runtime.learning:reference_metrics"
_FLOW: Final = "rollwright.runtime.flow_metrics:flow_metrics"
_STRATA: Final = "rollwright.runtime.episode_strata:episode_strata_metrics"
_QUEUE: Final = "rollwright.runtime.learning:queue_metrics"
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
        "reward/difficulty",
        "share of prompts by success rate, before_filter of all that was sampled, and of what is trained",
        "fraction",
        _FLOW,
        labels=("when", "bucket"),
        note="before and after tell what the filter changed",
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
        "mean and standard deviation (n) over scored episodes, each once; also before_filter",
        "reward",
        _EPISODES,
        labels=("stat", "when"),
        strata=EPISODE_STRATA,
        direction="higher",
        alarm="up while the held-out success falls: look for hacking",
    ),
    MetricEntry(
        "reward/component",
        "mean and standard deviation (n) of a raw part, before its weight",
        "reward",
        _EPISODES,
        labels=("component", "stat"),
        strata=EPISODE_STRATA,
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
        strata=EPISODE_STRATA,
        direction="lower",
        alarm="rising after filtering: a known failure",
        note="one run began near 40% at 8K tokens",
    ),
    MetricEntry(
        "len/response",
        "mean, and .1, .5, .9, .99 quantiles of action tokens of an episode; quantiles also of right and of wrong ones",
        "tokens",
        _EPISODES,
        labels=("quantile",),
        strata=EPISODE_STRATA,
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
    MetricEntry(
        "terminal/completed",
        "share of episodes that came to an end of their own, cut by no limit and broken by nothing",
        "fraction",
        _STRATA,
        strata=EPISODE_STRATA,
        direction="higher",
        note="by part alone; of the batch, terminal/reason has it",
    ),
    MetricEntry(
        "env/parser_error",
        "share of episodes with a call that could not be read",
        "fraction",
        _EPISODES,
        direction="lower",
    ),
    MetricEntry(
        "env/crash",
        "share of attempts that engine, environment or sandbox broke",
        "fraction",
        _FLOW,
        direction="lower",
    ),
    MetricEntry(
        "env/cost_per_success",
        "cost of tools and graders of every attempt over the right episodes of the batch",
        "currency",
        _EPISODES,
        direction="lower",
        note="null where no tool and no grader names a cost",
    ),
    MetricEntry("data/truncated", "attempts that a limit cut", "count", _FLOW, labels=("source",), direction="lower"),
    MetricEntry(
        "data/retried", "attempts made anew after an accident", "count", _FLOW, labels=("source",), direction="lower"
    ),
    MetricEntry(
        "data/rejected",
        "share of ended attempts that were filtered, expired or failed; by rule, and of each source, length and task",
        "fraction",
        _FLOW,
        labels=("rule", "source", "length", "task"),
        direction="lower",
        note="by task the eight that lost most in the step; the table `ledger` has all",
    ),
    MetricEntry(
        "stale/cancelled",
        "share of slots that came to an end which their age cut: expired, or given up as stragglers",
        "fraction",
        _FLOW,
        direction="lower",
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
        "group/incomplete",
        "share of groups, dropped ones among them, that lost members",
        "fraction",
        _FLOW,
        direction="lower",
    ),
    MetricEntry("group/dropped", "share of groups dropped for it", "fraction", _FLOW, direction="lower"),
    MetricEntry(
        "group/padded",
        "share of groups filled up",
        "fraction",
        _FLOW,
        direction="lower",
        note="0: a run trains what came, filters, or tries again, and pads no group",
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
)
