"""The curves of training that a report and a page show, by part."""

from collections.abc import Mapping

from rollwright.viewer.curves import CurveSpec, LineSpec
from rollwright.viewer.figures import Axis

__all__ = ["DATA", "HEADLINES", "LEARNING", "POLICY", "STALENESS", "SYSTEMS", "TOOLS", "TRAINING_CURVES"]

_SHARE = "fraction"

LEARNING: tuple[CurveSpec, ...] = (
    CurveSpec(
        slug="training-reward",
        title="Training reward",
        y=Axis(name="mean reward of a batch", unit="reward"),
        lines=(LineSpec(metric="reward/total", name="batch"), LineSpec(metric="reward/total", by="source")),
        note="up while held-out success falls: look for hacking",
    ),
    CurveSpec(
        slug="reward-components",
        title="Reward by component, before its weight",
        y=Axis(name="mean of a raw component", unit="reward"),
        lines=(LineSpec(metric="reward/component", by="component"),),
        note="correctness, format and length are read apart",
    ),
    CurveSpec(
        slug="length-by-outcome",
        title="Length by correctness",
        y=Axis(name="median action tokens of an episode", unit="tokens"),
        lines=(
            LineSpec(metric="len/response", labels={"quantile": "0.5"}, name="all"),
            LineSpec(metric="len/response", labels={"quantile": "0.5"}, by="outcome"),
        ),
        note="only wrong answers grow: the bias of a mean by response",
    ),
    CurveSpec(
        slug="length-quantiles",
        title="Length of episodes by quantile",
        y=Axis(name="action tokens of an episode", unit="tokens"),
        lines=(LineSpec(metric="len/response", by="quantile", name="quantile"),),
    ),
    CurveSpec(
        slug="truncation",
        title="Episodes that a limit cut",
        y=Axis(name="share of episodes", unit=_SHARE),
        lines=(LineSpec(metric="len/trunc_rate", name="all limits"), LineSpec(metric="len/trunc_rate", by="reason")),
    ),
    CurveSpec(
        slug="outcome-groups",
        title="Groups without contrast",
        y=Axis(name="share of groups", unit=_SHARE),
        lines=(
            LineSpec(metric="reward/zero_var_frac", name="one reward level"),
            LineSpec(metric="reward/zero_var_frac", labels={"when": "before_filter"}, name="before the filter"),
            LineSpec(metric="reward/all_right", name="all right"),
            LineSpec(metric="reward/all_wrong", name="all wrong"),
        ),
    ),
)

POLICY: tuple[CurveSpec, ...] = (
    CurveSpec(
        slug="entropy",
        title="Entropy by stratum",
        y=Axis(name="mean entropy over the vocabulary", unit="nat"),
        lines=(
            LineSpec(metric="entropy/full", name="all tokens"),
            *(LineSpec(metric="entropy/full", by=label, name=label) for label in ("action", "advantage", "source")),
        ),
        note="a fall at one kind of token hides in the mean of all",
    ),
    CurveSpec(
        slug="kl",
        title="Distance from the behavior policy and from the reference",
        y=Axis(name="KL estimate", unit="nat/token"),
        lines=(
            LineSpec(metric="policy/kl_beh_k3", name="to behavior (k3)"),
            LineSpec(metric="policy/kl_ref", name="to reference (k3)"),
        ),
    ),
    CurveSpec(
        slug="clip-fractions",
        title="Share of tokens that a clip or a mask took",
        y=Axis(name="share of trained tokens", unit=_SHARE),
        lines=(
            LineSpec(metric="policy/clip_frac", by="side", name="clip"),
            LineSpec(metric="policy/mask_frac", by="reason", name="mask"),
            LineSpec(metric="is/frac_truncated", name="correction at its cap"),
        ),
    ),
    CurveSpec(
        slug="gradient",
        title="Norm of the gradient before clipping",
        y=Axis(name="norm", unit=""),
        lines=(LineSpec(metric="policy/grad_norm", name="gradient"),),
        note="a spike: look at that step's receipts",
    ),
    CurveSpec(
        slug="loss",
        title="Loss by component",
        y=Axis(name="loss", unit="reward or nat"),
        lines=(LineSpec(metric="policy/loss", by="component"),),
    ),
)

STALENESS: tuple[CurveSpec, ...] = (
    CurveSpec(
        slug="lag",
        title="Age of trained tokens",
        y=Axis(name="lag", unit="steps"),
        lines=(LineSpec(metric="stale/lag", by="stat"),),
    ),
    CurveSpec(
        slug="ratio-tails",
        title="Tails of the importance ratio",
        y=Axis(name="ratio", unit=""),
        lines=(
            LineSpec(metric="is/quantiles", by="quantile", name="quantile"),
            LineSpec(metric="is/max", name="largest"),
        ),
        note="means hide tails: read the largest and the .99 quantile",
    ),
    CurveSpec(
        slug="effective-sample-size",
        title="Effective sample size over tokens",
        y=Axis(name="ESS / tokens", unit=_SHARE),
        lines=(LineSpec(metric="is/ess_frac", name="all tokens"), LineSpec(metric="is/ess_frac", by="lag", name="lag")),
    ),
    CurveSpec(
        slug="mismatch",
        title="Engine against learner at equal weights",
        y=Axis(name="difference of log-probabilities", unit="nat"),
        lines=(
            LineSpec(metric="mismatch/logp_abs", by="stat", name="sampled tokens,"),
            LineSpec(metric="mismatch/probe_logp_abs", name="fixed prefixes, largest"),
        ),
    ),
    CurveSpec(
        slug="queue-age",
        title="From an episode's end to its training",
        y=Axis(name="waiting", unit="s"),
        lines=(LineSpec(metric="stale/queue_age", by="stat"),),
    ),
    CurveSpec(
        slug="stale-dropped",
        title="What age alone took",
        y=Axis(name="share of eligible tokens, or of slots", unit=_SHARE),
        lines=(
            LineSpec(metric="stale/dropped", by="source"),
            LineSpec(metric="stale/cancelled", name="slots cut for their age"),
        ),
    ),
)

DATA: tuple[CurveSpec, ...] = (
    CurveSpec(
        slug="coefficient-mass",
        title="Who receives the gradient",
        y=Axis(name="share of the gradient's mass", unit=_SHARE),
        lines=(LineSpec(metric="data/coef_mass", by="source"),),
        note="a source's share of Σ |weight × correction × advantage| over kept tokens",
    ),
    CurveSpec(
        slug="terminal-reasons",
        title="How trained episodes ended",
        y=Axis(name="share of episodes", unit=_SHARE),
        lines=(LineSpec(metric="terminal/reason", by="reason"),),
    ),
    CurveSpec(
        slug="rejected",
        title="Ended attempts that were filtered, expired or failed",
        y=Axis(name="share of ended attempts", unit=_SHARE),
        lines=(LineSpec(metric="data/rejected", name="all"), LineSpec(metric="data/rejected", by="rule")),
    ),
    CurveSpec(
        slug="repetition",
        title="Attempts that repeat an earlier one of their prompt",
        y=Axis(name="share of attempts", unit=_SHARE),
        lines=(LineSpec(metric="explore/repeated_traj_rate", name="repeated"),),
        note="rising: an echo trap",
    ),
)

TOOLS: tuple[CurveSpec, ...] = (
    CurveSpec(
        slug="tool-calls",
        title="Calls of tools",
        y=Axis(name="calls of an episode", unit="calls"),
        lines=(LineSpec(metric="env/tool_calls", name="all tools"), LineSpec(metric="env/tool_calls", by="tool")),
    ),
    CurveSpec(
        slug="tool-errors",
        title="Calls that went wrong",
        y=Axis(name="share of calls, or as named", unit=_SHARE),
        lines=(
            LineSpec(metric="env/invalid_action", name="no call of a tool"),
            LineSpec(metric="env/tool_error", name="the tool failed"),
            LineSpec(metric="env/timeout", name="out of time"),
            LineSpec(metric="env/parser_error", name="episodes with a call that could not be read"),
            LineSpec(metric="env/violation", name="episodes with a refused call"),
            LineSpec(metric="env/crash", name="attempts that something broke"),
        ),
    ),
)

SYSTEMS: tuple[CurveSpec, ...] = (
    CurveSpec(
        slug="step-anatomy",
        title="Where a step's time goes",
        y=Axis(name="time of a step", unit="s"),
        lines=(
            LineSpec(metric="time/collect", name="waiting for the batch"),
            LineSpec(metric="time/learn", name="learning"),
            LineSpec(metric="time/publish", name="publishing weights"),
            LineSpec(metric="time/save", name="saving"),
        ),
    ),
    CurveSpec(
        slug="tokens-per-second",
        title="Action tokens over the time of waiting for them",
        y=Axis(name="throughput", unit="tokens/s"),
        lines=(LineSpec(metric="sys/tokens_s", name="tokens/s"),),
        note="a number of this machine and these lengths; it says nothing of another",
    ),
    CurveSpec(
        slug="accepted-per-hour",
        title="Trained episodes an hour",
        y=Axis(name="episodes", unit="1/h"),
        lines=(
            LineSpec(metric="sys/accepted_per_gpu_hour", by="per", name="trained, per"),
            LineSpec(metric="sys/useful_per_gpu_hour", by="per", name="with a gradient, per"),
        ),
    ),
)

TRAINING_CURVES: Mapping[str, tuple[CurveSpec, ...]] = {
    "Learning": LEARNING,
    "Policy": POLICY,
    "Staleness and mismatch": STALENESS,
    "Data": DATA,
    "Tools": TOOLS,
    "Systems": SYSTEMS,
}
"""Heading of a part to its curves."""

HEADLINES: tuple[CurveSpec, ...] = (
    CurveSpec(
        slug="training-reward",
        title="Training reward",
        y=Axis(name="mean reward of a batch", unit="reward"),
        lines=(LineSpec(metric="reward/total", name="batch"),),
    ),
    CurveSpec(
        slug="entropy",
        title="Entropy of all tokens",
        y=Axis(name="mean entropy over the vocabulary", unit="nat"),
        lines=(LineSpec(metric="entropy/full", name="all tokens"),),
    ),
    CurveSpec(
        slug="length",
        title="Length of episodes",
        y=Axis(name="mean action tokens of an episode", unit="tokens"),
        lines=(LineSpec(metric="len/response", name="all episodes"),),
    ),
    CurveSpec(
        slug="kl-to-behavior",
        title="Distance from the behavior policy",
        y=Axis(name="KL estimate (k3)", unit="nat/token"),
        lines=(LineSpec(metric="policy/kl_beh_k3", name="to behavior"),),
    ),
    CurveSpec(
        slug="gradient",
        title="Norm of the gradient before clipping",
        y=Axis(name="norm", unit=""),
        lines=(LineSpec(metric="policy/grad_norm", name="gradient"),),
    ),
    CurveSpec(
        slug="tokens-per-second",
        title="Action tokens over the time of waiting for them",
        y=Axis(name="throughput", unit="tokens/s"),
        lines=(LineSpec(metric="sys/tokens_s", name="tokens/s"),),
    ),
)
"""One line a run, for several runs over each other."""
