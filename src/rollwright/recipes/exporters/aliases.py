"""Our names beside those of TRL and veRL, for people who have dashboards already.

A row is only here where the numbers mean the same, up to how a mean is weighed. `*` stands for one word, the same in
all names of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["ALIASES", "Alias", "alias_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """One number and what it is called."""

    ours: str
    """As `naming.step_values` writes it."""
    trl: str | None = None
    verl: str | None = None


ALIASES: tuple[Alias, ...] = (
    Alias(ours="reward/total", trl="reward", verl="critic/rewards/mean"),
    Alias(ours="reward/total.stat:std", trl="reward_std"),
    Alias(ours="reward/zero_var_frac", trl="frac_reward_zero_std"),
    Alias(ours="reward/component.component:*", trl="rewards/*/mean"),
    Alias(ours="reward/component.component:*.stat:std", trl="rewards/*/std"),
    Alias(ours="len/response", trl="completions/mean_length", verl="response_length/mean"),
    Alias(ours="len/trunc_rate", trl="completions/clipped_ratio", verl="response_length/clip_ratio"),
    Alias(ours="policy/kl_ref", trl="kl", verl="actor/kl_loss"),
    Alias(ours="policy/kl_beh", verl="actor/ppo_kl"),
    Alias(ours="entropy/full", trl="entropy", verl="actor/entropy"),
    Alias(ours="policy/clip_frac", verl="actor/pg_clipfrac"),
    Alias(ours="policy/clip_frac.side:dual", verl="actor/pg_clipfrac_lower"),
    Alias(ours="policy/clip_frac.side:low", trl="clip_ratio/low_mean"),
    Alias(ours="policy/clip_frac.side:high", trl="clip_ratio/high_mean"),
    Alias(ours="policy/clip_frac_two_sided", trl="clip_ratio/region_mean"),
    Alias(ours="policy/loss.component:policy_gradient", trl="loss", verl="actor/pg_loss"),
    Alias(ours="policy/grad_norm", trl="grad_norm", verl="actor/grad_norm"),
    Alias(ours="policy/lr", trl="learning_rate", verl="actor/lr"),
    Alias(ours="mismatch/logp_abs.stat:mean", trl="sampling/sampling_logp_difference/mean"),
    Alias(ours="mismatch/logp_abs.stat:max", trl="sampling/sampling_logp_difference/max"),
    Alias(ours="stale/lag.stat:mean", verl="training/off_policy/trajectory_staleness/mean"),
    Alias(ours="env/tool_calls", trl="tools/call_frequency", verl="tool_call_counts/mean"),
    Alias(ours="env/tool_error", trl="tools/failure_frequency"),
    Alias(ours="env/steps", verl="num_turns/mean"),
    Alias(ours="time/learn", verl="timing_s/update_actor"),
    Alias(ours="time/publish", verl="timing_s/update_weights"),
    Alias(ours="time/save", verl="timing_s/save_checkpoint"),
)
"""In the order of the table in the reference."""

_EXACT: Mapping[str, Alias] = MappingProxyType({one.ours: one for one in ALIASES if "*" not in one.ours})
_PATTERNS = tuple(one for one in ALIASES if "*" in one.ours)


def alias_of(name: str, names: Literal["trl", "verl"]) -> str | None:
    """What others call a number of ours; None where they have no name for it."""
    exact = _EXACT.get(name)
    if exact is not None:
        return _of(exact, names)
    for one in _PATTERNS:
        before, _, after = one.ours.partition("*")
        word = name[len(before) : len(name) - len(after)]
        if name.startswith(before) and name.endswith(after) and word and "." not in word:
            theirs = _of(one, names)
            return None if theirs is None else theirs.replace("*", word)
    return None


def _of(alias: Alias, names: Literal["trl", "verl"]) -> str | None:
    return alias.trl if names == "trl" else alias.verl
