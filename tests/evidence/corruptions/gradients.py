"""Corruptions of what moved the weights and of the numbers drawn from it. Digests are mended."""

from tests.evidence.corruptions.copies import Copy, Row, careful
from tests.evidence.corruptions.episodes import LOST, WON

__all__: list[str] = []

SHORT = "t000033-00-0"
"""One policy segment, 3, of three tokens; commit 3, update 2."""


@careful
def receipt_for_a_tools_tokens(copy: Copy) -> tuple[str, ...]:
    _train_the_tool(copy)
    return (rf"{WON}[/ ]5\b",)


@careful
def tools_tokens_called_the_policys(copy: Copy) -> tuple[str, ...]:
    changes = {"origin": "policy", "policy": "policy", "policy_version": 1, "cache_version": 1}
    changes |= {"behavior_logprobs": [-0.01, -0.02, -0.03], "call_id": None}
    copy.edit("segments", 3, changes, trajectory_id=WON, segment=5)
    copy.edit("trajectories", 3, {"num_action_tokens": 29}, trajectory_id=WON)
    _train_the_tool(copy)
    return (rf"{WON}([/ ]5\b|/c0)",)


@careful
def policys_tokens_called_the_users(copy: Copy) -> tuple[str, ...]:
    changes = {"origin": "user", "policy": None, "policy_version": None, "cache_version": None}
    copy.edit("segments", 3, changes | {"behavior_logprobs": None}, trajectory_id=WON, segment=7)
    copy.edit("trajectories", 3, {"num_action_tokens": 21}, trajectory_id=WON)
    copy.drop("receipts", 3, trajectory_id=WON, segment=7)
    return (rf"{WON}([/ ]7\b)?",)


@careful
def receipt_under_a_second_update(copy: Copy) -> tuple[str, ...]:
    copy.add("receipts", 4, copy.row("receipts", 3, trajectory_id=WON, segment=7) | {"step": 3, "update": 3})
    return (rf"{WON}[/ ]7\b",)


@careful
def receipt_dropped(copy: Copy) -> tuple[str, ...]:
    copy.drop("receipts", 3, trajectory_id=WON, segment=7)
    return (rf"{WON}[/ ]7\b",)


@careful
def behavior_half_a_nat_lower(copy: Copy) -> tuple[str, ...]:
    copy.shift("segments", 3, "behavior_logprobs", (1, -0.5), trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3[/ ]1\b",)


@careful
def behavior_a_hundredth_higher(copy: Copy) -> tuple[str, ...]:
    copy.shift("segments", 3, "behavior_logprobs", (1, 0.01), trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3[/ ]1\b",)


@careful
def behavior_above_certainty(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "behavior_logprobs", (2, 0.1), trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3[/ ]2\b",)


@careful
def behavior_gone(copy: Copy) -> tuple[str, ...]:
    copy.edit("segments", 3, {"behavior_logprobs": None}, trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3\b",)


@careful
def proximal_half_a_nat_lower(copy: Copy) -> tuple[str, ...]:
    copy.shift("receipts", 3, "proximal_logprobs", (1, -0.5), trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3[/ ]1\b",)


@careful
def proximal_gone(copy: Copy) -> tuple[str, ...]:
    copy.edit("receipts", 3, {"proximal_logprobs": None}, trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3\b",)


@careful
def both_streams_half_a_nat_lower(copy: Copy) -> tuple[str, ...]:
    copy.shift("segments", 3, "behavior_logprobs", (1, -0.5), trajectory_id=SHORT, segment=3)
    copy.shift("receipts", 3, "proximal_logprobs", (1, -0.5), trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3\b|entropy/sampled",)


@careful
def demonstration_a_hundredth_likelier(copy: Copy) -> tuple[str, ...]:
    copy.shift("receipts", 2, "proximal_logprobs", (1, 0.01), trajectory_id="d000012-00-0", segment=3)
    return (r"d000012-00-0[/ ]3\b",)


@careful
def current_invented(copy: Copy) -> tuple[str, ...]:
    proximal = copy.row("receipts", 3, trajectory_id=SHORT, segment=3)["proximal_logprobs"]
    copy.edit("receipts", 3, {"current_logprobs": [p - 0.05 for p in proximal]}, trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3\b",)


@careful
def advantage_with_the_other_sign(copy: Copy) -> tuple[str, ...]:
    row = copy.row("receipts", 3, trajectory_id=WON, segment=7)
    advantage = {"n": row["advantage"]["n"], "v": [-v for v in row["advantage"]["v"]]}
    copy.edit("receipts", 3, {"advantage": advantage, "loss": -row["loss"]}, trajectory_id=WON, segment=7)
    return (rf"{WON}[/ ]7\b",)


@careful
def weight_moved_within_a_segment(copy: Copy) -> tuple[str, ...]:
    weight = copy.row("receipts", 3, trajectory_id=WON, segment=3)["token_weight"]["v"][0]
    runs = {"n": [1, 1, 19], "v": [2 * weight, 0.0, weight]}
    copy.edit("receipts", 3, {"token_weight": runs}, trajectory_id=WON, segment=3)
    return (rf"{WON}[/ ]3[/ ]0\b", rf"{WON}[/ ]3[/ ]1\b")


@careful
def weight_moved_to_another_episode(copy: Copy) -> tuple[str, ...]:
    for trajectory, factor in ((WON, 1.5), (LOST, 0.5)):
        _scale(copy, trajectory, 7, factor)
    return (rf"{WON}[/ ]7\b", rf"{LOST}[/ ]7\b")


@careful
def half_the_denominator(copy: Copy) -> tuple[str, ...]:
    rows = copy.rows("receipts", 3)
    for row in rows:
        _scale_row(row, 2.0)
    copy.write("receipts", 3, rows)
    _scale_metrics(copy, {"denominator": 0.5, "weight_sum": 2.0})
    return (r"2 policy policy_gradient|denominator|weight_sum|in update 2",)


@careful
def clipped_flag_on_one_token(copy: Copy) -> tuple[str, ...]:
    copy.edit("receipts", 3, {"flags": {"n": [1, 1, 1], "v": [0, 1, 0]}}, trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3[/ ]1\b",)


@careful
def fewer_tokens_kept(copy: Copy) -> tuple[str, ...]:
    copy.edit("receipts", 3, {"num_kept": 4}, trajectory_id=WON, segment=7)
    return (rf"{WON}[/ ]7\b",)


@careful
def lag_raised(copy: Copy) -> tuple[str, ...]:
    copy.edit("receipts", 3, {"lag": 1}, trajectory_id=WON, segment=7)
    return (rf"{WON}([/ ]7\b)?",)


@careful
def entropy_of_a_receipt(copy: Copy) -> tuple[str, ...]:
    entropy = copy.row("receipts", 3, trajectory_id=SHORT, segment=3)["entropy"]
    copy.edit("receipts", 3, {"entropy": entropy * 1.1}, trajectory_id=SHORT, segment=3)
    return (rf"{SHORT}[/ ]3\b|entropy/full",)


@careful
def loss_of_a_receipt(copy: Copy) -> tuple[str, ...]:
    loss = copy.row("receipts", 3, trajectory_id=WON, segment=7)["loss"]
    copy.edit("receipts", 3, {"loss": loss * 1.01}, trajectory_id=WON, segment=7)
    return (rf"{WON}[/ ]7\b",)


@careful
def metric_of_the_distance(copy: Copy) -> tuple[str, ...]:
    return _raise_metric(copy, "policy/kl_beh", 0.01)


@careful
def metric_of_entropy(copy: Copy) -> tuple[str, ...]:
    return _raise_metric(copy, "entropy/full", 0.01)


@careful
def metric_of_the_mismatch(copy: Copy) -> tuple[str, ...]:
    return _raise_metric(copy, "mismatch/logp_abs", 0.01)


@careful
def metric_of_the_reward(copy: Copy) -> tuple[str, ...]:
    return _raise_metric(copy, "reward/total", 0.02)


@careful
def metric_gone(copy: Copy) -> tuple[str, ...]:
    copy.drop("metrics", 4, name="reward/total", labels=[])
    return (r"reward/total",)


@careful
def success_rate_two_points_higher(copy: Copy) -> tuple[str, ...]:
    key = {"evaluation": "held-out@5", "metric": "success", "labels": []}
    value = copy.row("evaluations", 6, **key)["value"]
    copy.edit("evaluations", 6, {"value": value + 0.02}, **key)
    return (r"held-out@5.*success",)


@careful
def narrower_interval(copy: Copy) -> tuple[str, ...]:
    key = {"evaluation": "held-out@5", "metric": "success", "labels": []}
    low = copy.row("evaluations", 6, **key)["low"]
    copy.edit("evaluations", 6, {"low": low + 0.05}, **key)
    return (r"held-out@5.*success",)


@careful
def failed_evaluation_episode_dropped(copy: Copy) -> tuple[str, ...]:
    episodes = [row for row in copy.rows("trajectories", 6) if row["purpose"] == "evaluation"]
    gone = next(row for row in episodes if row["reward"] == 0.0)
    held = {table for table in ("trajectories", "segments", "tool_calls", "verdicts")}
    for table in held:
        rows = copy.rows(table, 6)
        copy.write(table, 6, [row for row in rows if row["trajectory_id"] != gone["trajectory_id"]])
    means = _means_by_task([row for row in episodes if row is not gone])
    changes = {"value": sum(means) / len(means), "num_trajectories": 23, "num_tasks": len(means)}
    for metric in ("success", "reward"):
        copy.edit("evaluations", 6, changes, evaluation="held-out@5", metric=metric, labels=[])
    return (rf"{gone['trajectory_id']}|{gone['task_id']}|held-out@5",)


@careful
def evaluation_episode_that_was_right(copy: Copy) -> tuple[str, ...]:
    row = next(r for r in copy.rows("trajectories", 6) if r["purpose"] == "evaluation" and r["reward"] == 0.0)
    name, components = row["trajectory_id"], row["reward_components"]
    components[0]["value"] = 1.0
    copy.edit("trajectories", 6, {"reward": 1.0, "reward_components": components}, trajectory_id=name)
    copy.edit("verdicts", 6, {"value": 1.0}, trajectory_id=name, verifier="exact")
    return (name,)


def _train_the_tool(copy: Copy) -> None:
    row = copy.row("receipts", 3, trajectory_id=WON, segment=7)
    weight, advantage = row["token_weight"]["v"][0], row["advantage"]["v"][0]
    moved = 3 * weight * advantage
    row |= {"segment": 5, "num_eligible": 3, "num_kept": 3, "loss": -moved, "influence": abs(moved)}
    row |= {"proximal_logprobs": [-0.01, -0.02, -0.03]}
    row |= {name: {"n": [3], "v": row[name]["v"][:1]} for name in ("advantage", "token_weight", "flags")}
    copy.add("receipts", 3, row)
    _scale_metrics(copy, {"weight_sum": 1 + 3 * weight})


def _scale(copy: Copy, trajectory: str, segment: int, factor: float) -> None:
    rows = copy.rows("receipts", 3)
    for row in rows:
        if row["trajectory_id"] == trajectory and row["segment"] == segment:
            _scale_row(row, factor)
    copy.write("receipts", 3, rows)


def _scale_row(row: Row, factor: float) -> None:
    row["token_weight"]["v"] = [factor * v for v in row["token_weight"]["v"]]
    row["loss"] *= factor
    row["influence"] *= factor


def _scale_metrics(copy: Copy, factors: dict[str, float]) -> None:
    rows = copy.rows("metrics", 3)
    for row in rows:
        if row["update"] == 2:
            row["value"] = row["value"] and row["value"] * factors.get(row["name"], 1.0)
    copy.write("metrics", 3, rows)


def _raise_metric(copy: Copy, name: str, by: float) -> tuple[str, ...]:
    rows = copy.rows("metrics", 4)
    row = min((row for row in rows if row["name"] == name), key=lambda row: len(row["labels"]))
    row["value"] += by
    copy.write("metrics", 4, rows)
    return (name,)


def _means_by_task(episodes: list[Row]) -> list[float]:
    rewards: dict[str, list[float]] = {}
    for row in episodes:
        rewards.setdefault(row["task_id"], []).append(row["reward"])
    return [sum(values) / len(values) for values in rewards.values()]
