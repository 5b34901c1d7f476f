"""Metrics of a step's episodes and graders, and of what became of every attempt; each counts once."""

from typing import Final

from rollwright.record.metrics.entry import EPISODE_STRATA, MetricEntry

__all__ = ["OF_EPISODES"]

_EPISODES: Final = "rollwright.runtime.episode_metrics:episode_metrics"
_STRATA: Final = "rollwright.runtime.episode_strata:episode_strata_metrics"
_FLOW: Final = "rollwright.runtime.flow_metrics:flow_metrics"
_GRADERS: Final = "rollwright.runtime.grader_metrics:grader_metrics"

OF_EPISODES: Final[tuple[MetricEntry, ...]] = (
    MetricEntry(
        "reward/difficulty",
        "share of prompts by success rate, before_filter of all that was sampled, and of what is trained",
        "fraction",
        _FLOW,
        labels=("when", "bucket"),
        note="before and after tell what the filter changed",
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
        "env/replay_fail",
        "share of parked episodes gone on with whose world did not replay as it was recorded",
        "fraction",
        _FLOW,
        direction="lower",
        alarm="above 0",
        note="a run that is followed by `rollwright replay` ends at the first that comes out otherwise",
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
        "explore/unique_answers",
        "distinct canonical answers to a prompt, as graders read them, mean over prompts",
        "count",
        _EPISODES,
        direction="higher",
        note="null where no grader reads an answer",
    ),
    MetricEntry(
        "explore/unique_programs",
        "distinct programs, or files left behind, at a prompt, mean over prompts",
        "count",
        _EPISODES,
        direction="higher",
    ),
    MetricEntry(
        "verifier/disagreement",
        "share of episodes on which one grader accepts and another does not, of those that two or more judged",
        "fraction",
        _GRADERS,
        labels=("audit", "verifier", "bound"),
        direction="lower",
        alarm="gate",
        note="parts of an ensemble, and verifiers of role outcome, weight 0 included; in an audit beside a second one",
    ),
    MetricEntry(
        "verifier/flaky_rate",
        "share of verdicts from repeated runs in which a check came out both ways",
        "fraction",
        _GRADERS,
        labels=("audit", "bound"),
        direction="lower",
        alarm="gate",
        note="an audit of a run writes it of verdicts that it asked for again",
    ),
    MetricEntry(
        "judge/position_gap",
        "how far a judge's preference for a place moves the chance of winning, mean over comparisons",
        "fraction",
        _GRADERS,
        direction="lower",
        alarm="gate",
    ),
    MetricEntry(
        "judge/len_corr",
        "Pearson's correlation of a grader's score and the action tokens of what it judged",
        "1",
        _GRADERS,
        labels=("verifier",),
        alarm="gate",
    ),
)
