"""Alarms: what is watched while a run trains, and what it does to the run.

The named kinds know their metric and how it goes wrong; where a source states a threshold it is their default, and
where none does the recipe has to fix one. All of them warn unless the recipe says `action = "pause"`.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rollwright.recipes.config.gates import LimitConfig, check_series

__all__ = [
    "AlarmConfig",
    "EntropyCollapseAlarmConfig",
    "HackingGapAlarmConfig",
    "InvalidActionsAlarmConfig",
    "KlAlarmConfig",
    "LengthAlarmConfig",
    "MetricAlarmConfig",
    "MismatchAlarmConfig",
    "VerifierDisagreementAlarmConfig",
    "WatchConfig",
]


class WatchConfig(LimitConfig):
    """What an alarm watches in the steps of the RL stage."""

    metric: str
    """As runs write it."""
    labels: dict[str, str] = {}
    """All that its rows carry beside `model`, which is `policy` where it is not named."""
    minus: str = ""
    """A second metric, subtracted; empty: none."""
    minus_labels: dict[str, str] = {}
    rule: Literal["threshold", "ratio", "change"] = "threshold"
    """What is held to the limit: the number; its ratio to the mean of the first steps; its change from that mean."""
    first: int = Field(default=5, ge=1, le=1_000_000)
    """Steps with a value that `ratio` and `change` are counted from."""
    in_a_row: int = Field(default=3, ge=1, le=1_000_000)
    """Steps with a value, one after the other, that lie beyond the limit before the alarm rises."""
    action: Literal["warn", "pause"] = "warn"
    """pause: the step is saved and the run stops, to be looked at; `rollwright resume --acknowledge` goes on."""

    @model_validator(mode="after")
    def _is_written(self) -> "WatchConfig":
        check_series(self.metric, self.labels)
        if self.minus:
            check_series(self.minus, self.minus_labels)
        elif self.minus_labels:
            raise ValueError("minus_labels is of minus, which is not given; name the metric that is subtracted")
        if self.rule == "threshold" and self.first != 5:
            raise ValueError("first is of the rules 'ratio' and 'change'; leave it out with rule 'threshold'")
        return self


class MetricAlarmConfig(WatchConfig):
    """Any metric, by a rule of your own."""

    kind: Literal["metric"] = "metric"


class EntropyCollapseAlarmConfig(WatchConfig):
    """The policy stops exploring."""

    kind: Literal["entropy_collapse"] = "entropy_collapse"
    name: str = "entropy collapse"
    metric: str = "entropy/full"
    rule: Literal["threshold", "ratio", "change"] = "ratio"
    bound: Literal["at_least", "at_most"] = "at_least"
    limit: float = 0.27
    label: Literal["D", "C", "I", "U"] = "D"
    source: str = "arXiv:2505.22617: 11 runs used about 73% of their entropy in 200 of 2,400 steps, for 76% of the gain"


class VerifierDisagreementAlarmConfig(WatchConfig):
    """The reward and a second verifier part ways; the share of episodes on which they differ. Fix a limit."""

    kind: Literal["verifier_disagreement"] = "verifier_disagreement"
    name: str = "verifier disagreement"
    metric: str = "verifier/disagreement"
    bound: Literal["at_least", "at_most"] = "at_most"


class HackingGapAlarmConfig(WatchConfig):
    """The reward rises and a second verifier does not follow: mean reward minus mean of that part. Fix a limit."""

    kind: Literal["hacking_gap"] = "hacking_gap"
    name: str = "hacking gap"
    metric: str = "reward/total"
    minus: str = "reward/component"
    bound: Literal["at_least", "at_most"] = "at_most"

    @model_validator(mode="after")
    def _names_the_part(self) -> "HackingGapAlarmConfig":
        if self.minus == "reward/component" and "component" not in self.minus_labels:
            raise ValueError(
                "a hacking gap is measured against a second verifier: name that part, of weight 0, by "
                'minus_labels = { component = "NAME" }'
            )
        return self


class MismatchAlarmConfig(WatchConfig):
    """Engine and learner give one token two probabilities at equal weights. Fix a limit for your engine."""

    kind: Literal["mismatch"] = "mismatch"
    name: str = "mismatch"
    metric: str = "mismatch/logp_abs"
    labels: dict[str, str] = {"stat": "mean"}
    bound: Literal["at_least", "at_most"] = "at_most"


class KlAlarmConfig(WatchConfig):
    """The weights run away from those that sampled, or, with metric policy/kl_ref, from the reference. Fix a limit."""

    kind: Literal["kl"] = "kl"
    name: str = "KL"
    metric: str = "policy/kl_beh_k3"
    bound: Literal["at_least", "at_most"] = "at_most"


class LengthAlarmConfig(WatchConfig):
    """Responses grow, as they do where length is paid."""

    kind: Literal["length"] = "length"
    name: str = "length"
    metric: str = "len/response"
    rule: Literal["threshold", "ratio", "change"] = "ratio"
    bound: Literal["at_least", "at_most"] = "at_most"
    limit: float = 2.0
    label: Literal["D", "C", "I", "U"] = "I"
    source: str = "chosen: no source states a factor; twice the first steps is worth a look"


class InvalidActionsAlarmConfig(WatchConfig):
    """More and more actions are none."""

    kind: Literal["invalid_actions"] = "invalid_actions"
    name: str = "invalid actions"
    metric: str = "env/invalid_action"
    bound: Literal["at_least", "at_most"] = "at_most"
    limit: float = 0.2
    label: Literal["D", "C", "I", "U"] = "I"
    source: str = "chosen: no source states a share; one episode in five is worth a look"


AlarmConfig = Annotated[
    MetricAlarmConfig
    | EntropyCollapseAlarmConfig
    | VerifierDisagreementAlarmConfig
    | HackingGapAlarmConfig
    | MismatchAlarmConfig
    | KlAlarmConfig
    | LengthAlarmConfig
    | InvalidActionsAlarmConfig,
    Field(discriminator="kind"),
]
