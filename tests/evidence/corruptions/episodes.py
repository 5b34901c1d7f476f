"""Corruptions of what happened: tokens, provenance, tool calls, verdicts, rewards, the ledger. Digests are mended."""

import hashlib
from datetime import timedelta

from tests.evidence.corruptions.copies import Copy, careful

__all__: list[str] = []

WON = "t000033-02-0"
"""Calls the calculator in segment 3, is answered in 5, answers right in 7; commit 3, step 2."""
LOST = "t000033-04-0"
"""Of the same group; answers wrong."""
SLOT_OF_WON = rf"33[ /]+(slot )?2\b|group 33.*slot 2|slot 2 of group 33|{WON}"


@careful
def token_of_an_answer(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "token_ids", (3, 22), trajectory_id=WON, segment=7)  # "133" becomes "132"
    return (WON,)


@careful
def token_of_a_call(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "token_ids", (11, 23), trajectory_id=WON, segment=3)  # "32+…" becomes "33+…"
    return (rf"{WON}[/ ](c0|3)",)


@careful
def token_that_ends_a_turn(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "token_ids", (3, 203), trajectory_id="t000035-01-0", segment=3)
    return (r"t000035-01-0[/ ]3",)


@careful
def token_outside_the_vocabulary(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "token_ids", (5, 99_999), trajectory_id=WON, segment=3)
    return (rf"{WON}[/ ]3[/ ]5\b",)


@careful
def token_of_a_tool(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "token_ids", (1, 24), trajectory_id=WON, segment=5)
    return (rf"{WON}[/ ]5[/ ]1\b",)


@careful
def token_of_a_task(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "token_ids", (1, 24), trajectory_id=WON, segment=1)
    return (rf"{WON}[/ ]1[/ ]1\b|{WON} .*token 22\b",)  # by segment, or by place in the context


@careful
def token_of_a_template(copy: Copy) -> tuple[str, ...]:
    copy.set_item("segments", 3, "token_ids", (3, 274), trajectory_id=WON, segment=2)  # assistant becomes user
    return (rf"{WON}[/ ]2[/ ]3\b|{WON} .*token 34\b",)  # by segment, or by place in the context


@careful
def task_of_a_whole_group(copy: Copy) -> tuple[str, ...]:
    return _set_in_group(copy, segment=1, item=(1, 24))


@careful
def template_of_a_whole_group(copy: Copy) -> tuple[str, ...]:
    return _set_in_group(copy, segment=2, item=(3, 274))


@careful
def segment_that_starts_later(copy: Copy) -> tuple[str, ...]:
    copy.edit("segments", 3, {"start": 70}, trajectory_id=WON, segment=7)
    return (rf"{WON}[/ ]7",)


@careful
def segment_with_another_parent(copy: Copy) -> tuple[str, ...]:
    copy.edit("segments", 3, {"parent": 2}, trajectory_id=WON, segment=7)
    return (rf"{WON}[/ ]7",)


@careful
def span_that_ends_early(copy: Copy) -> tuple[str, ...]:
    spans = copy.row("segments", 3, trajectory_id=WON, segment=3)["spans"]
    spans[0]["token_end"] -= 2
    copy.edit("segments", 3, {"spans": spans}, trajectory_id=WON, segment=3)
    return (rf"{WON}[/ ]3|action.*tool_call",)


@careful
def cooler_sampling(copy: Copy) -> tuple[str, ...]:
    sampling = copy.row("segments", 3, trajectory_id=WON, segment=7)["sampling"] | {"temperature": 0.5}
    copy.edit("segments", 3, {"sampling": sampling}, trajectory_id=WON, segment=7)
    return (rf"{WON}[/ ]7",)


@careful
def newer_policy(copy: Copy) -> tuple[str, ...]:
    copy.edit("segments", 3, {"policy_version": 2, "cache_version": 2}, trajectory_id=WON, segment=3)
    return (rf"{WON}[/ ]3",)


@careful
def older_policy(copy: Copy) -> tuple[str, ...]:
    copy.edit("segments", 3, {"policy_version": 0, "cache_version": 0}, trajectory_id=WON)
    copy.edit("receipts", 3, {"lag": 1}, trajectory_id=WON)
    return (WON,)


@careful
def episode_of_another_group(copy: Copy) -> tuple[str, ...]:
    copy.edit("trajectories", 3, {"group_id": 34}, trajectory_id=WON)
    return (WON,)


@careful
def hidden_truncation(copy: Copy) -> tuple[str, ...]:
    copy.edit("trajectories", 4, {"terminal_reason": "model_end"}, trajectory_id="t000039-04-0")
    return (r"t000039-04-0",)


@careful
def hidden_truncation_with_its_metrics(copy: Copy) -> tuple[str, ...]:
    copy.edit("trajectories", 4, {"terminal_reason": "model_end"}, trajectory_id="t000039-04-0")
    rows = [row for row in copy.rows("metrics", 4) if ("reason", "context_limit") not in row["labels"]]
    for row in rows:
        if ("reason", "model_end") in row["labels"]:
            row["value"] = 1.0
        elif row["name"] == "len/trunc_rate":
            row["value"] = 0.0
    copy.write("metrics", 4, rows)
    return (r"t000039-04-0",)


@careful
def invented_truncation(copy: Copy) -> tuple[str, ...]:
    copy.edit("trajectories", 3, {"terminal_reason": "token_limit"}, trajectory_id="t000033-00-0")
    return (r"t000033-00-0",)


@careful
def one_action_token_more(copy: Copy) -> tuple[str, ...]:
    copy.edit("trajectories", 3, {"num_action_tokens": 27}, trajectory_id=WON)
    return (WON,)


@careful
def another_seed(copy: Copy) -> tuple[str, ...]:
    seed = copy.row("trajectories", 3, trajectory_id=WON)["reset_seed"]
    copy.edit("trajectories", 3, {"reset_seed": seed ^ 1}, trajectory_id=WON)
    return (WON,)


@careful
def another_seed_for_a_whole_group(copy: Copy) -> tuple[str, ...]:
    seed = copy.row("trajectories", 3, trajectory_id=WON)["reset_seed"]
    copy.edit("trajectories", 3, {"reset_seed": seed ^ 1}, group_id=33)
    return (r"t000033-0[0-5]-0|group 33",)


@careful
def end_before_its_beginning(copy: Copy) -> tuple[str, ...]:
    started = copy.row("trajectories", 3, trajectory_id=WON)["started_at"]
    copy.edit("trajectories", 3, {"ended_at": started - timedelta(seconds=1)}, trajectory_id=WON)
    return (WON,)


@careful
def tool_result_in_the_table_alone(copy: Copy) -> tuple[str, ...]:
    _set_result(copy, "134")
    return (rf"{WON}[/ ](c0|5)",)


@careful
def tool_result_in_table_and_tokens(copy: Copy) -> tuple[str, ...]:
    _set_result(copy, "143")
    copy.set_item("segments", 3, "token_ids", (1, 24), trajectory_id=WON, segment=5)
    return (rf"{WON}[/ ](c0|5)",)


@careful
def arguments_of_another_call(copy: Copy) -> tuple[str, ...]:
    copy.edit("tool_calls", 3, {"arguments": '{"expression": "32+89+13"}'}, call_id=f"{WON}/c0")
    return (rf"{WON}[/ ](c0|3)",)


@careful
def call_gone(copy: Copy) -> tuple[str, ...]:
    copy.drop("tool_calls", 3, call_id=f"{WON}/c0")
    return (rf"{WON}[/ ](c0|3|5)",)


@careful
def call_that_failed(copy: Copy) -> tuple[str, ...]:
    copy.edit("tool_calls", 3, {"status": "tool_error"}, call_id=f"{WON}/c0")
    return (rf"{WON}/c0",)


@careful
def call_that_failed_with_its_metrics(copy: Copy) -> tuple[str, ...]:
    copy.edit("tool_calls", 3, {"status": "tool_error"}, call_id=f"{WON}/c0")
    rows = copy.rows("metrics", 3)
    for row in rows:
        if row["name"] == "env/tool_error":
            row["value"] = 1 / row["num_items"]
    copy.write("metrics", 3, rows)
    return (rf"{WON}/c0",)


@careful
def reward_alone(copy: Copy) -> tuple[str, ...]:
    copy.edit("trajectories", 3, {"reward": 0.0}, trajectory_id=WON)
    return (WON,)


@careful
def reward_with_its_component(copy: Copy) -> tuple[str, ...]:
    _set_reward(copy, 3, WON, 0.0)
    return (WON,)


@careful
def reward_with_component_and_verdict(copy: Copy) -> tuple[str, ...]:
    _set_verdict(copy, 3, LOST, 1.0)
    _set_reward(copy, 3, LOST, 1.0)
    return (LOST,)


@careful
def two_rewards_exchanged(copy: Copy) -> tuple[str, ...]:
    for trajectory, value in ((WON, 0.0), (LOST, 1.0)):
        _set_verdict(copy, 3, trajectory, value)
        _set_reward(copy, 3, trajectory, value)
    return (WON, LOST)


@careful
def verifier_of_another_revision(copy: Copy) -> tuple[str, ...]:
    copy.edit("verdicts", 3, {"verifier_revision": "0123456789abcdef"}, trajectory_id=WON, verifier="exact")
    return (WON,)


@careful
def slot_that_was_never_ready(copy: Copy) -> tuple[str, ...]:
    copy.drop("ledger", 3, group_id=33, slot=2, state="ready")
    return (SLOT_OF_WON,)


@careful
def last_ledger_row_gone(copy: Copy) -> tuple[str, ...]:
    copy.drop("ledger", 6, group_id=47, slot=5, state="trained")
    copy.edit_json("commits/000006-step.json", lambda commit: commit.update(last_seq=286))
    return (r"47[ /]+(slot )?5\b|group 47.*slot 5|slot 5 of group 47|t000047-05-0",)


@careful
def ledger_row_twice(copy: Copy) -> tuple[str, ...]:
    row = copy.row("ledger", 3, group_id=33, slot=2, state="trained")
    copy.add("ledger", 6, row | {"seq": 288})
    copy.edit_json("commits/000006-step.json", lambda commit: commit.update(last_seq=288))
    return (SLOT_OF_WON,)


@careful
def trained_slot_called_filtered(copy: Copy) -> tuple[str, ...]:
    changes = {"state": "filtered", "rule": "zero_contrast"}
    copy.edit("ledger", 3, changes, group_id=33, slot=2, state="trained")
    return (SLOT_OF_WON,)


@careful
def slot_trained_a_step_later(copy: Copy) -> tuple[str, ...]:
    copy.edit("ledger", 3, {"step": 3}, group_id=33, slot=2, state="trained")
    return (SLOT_OF_WON,)


def _set_in_group(copy: Copy, *, segment: int, item: tuple[int, float]) -> tuple[str, ...]:
    for slot in range(6):
        copy.set_item("segments", 3, "token_ids", item, trajectory_id=f"t000033-{slot:02d}-0", segment=segment)
    return (r"t000033-0[0-5]-0|group 33",)


def _set_result(copy: Copy, result: str) -> None:
    changes = {"result": result, "result_sha256": hashlib.sha256(result.encode()).hexdigest()}
    copy.edit("tool_calls", 3, changes, call_id=f"{WON}/c0")


def _set_reward(copy: Copy, commit: int, trajectory: str, value: float) -> None:
    components = copy.row("trajectories", commit, trajectory_id=trajectory)["reward_components"]
    components[0]["value"] = value
    copy.edit("trajectories", commit, {"reward": value, "reward_components": components}, trajectory_id=trajectory)


def _set_verdict(copy: Copy, commit: int, trajectory: str, value: float) -> None:
    changes = {"value": value, "evidence": "'133' against '133'" if value else "'131' against '133'"}
    copy.edit("verdicts", commit, changes, trajectory_id=trajectory, verifier="exact")
