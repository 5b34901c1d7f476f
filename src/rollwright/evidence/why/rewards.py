"""Why a reward is what it is: parts and weights, what each verifier said, and what it saw."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from rollwright.evidence.why.answers import Answer, Fact
from rollwright.evidence.why.asking import Asked, Row, text_of

__all__ = ["reward_answer"]

_SEEN = frozenset({"policy", "demonstration", "tool", "environment", "user", "task"})
_MOST = 400
"""Characters of a passage that are shown."""


def reward_answer(asked: Asked, trajectory: Row) -> Answer:
    """The reward of an episode with everything that made it.

    Args:
        asked: the run.
        trajectory: its row.
    """
    name = text_of(str(trajectory["trajectory_id"]))
    where = f"FROM trajectories WHERE trajectory_id = {name}"
    facts = [
        Fact(
            name="terminal_reason",
            value=str(trajectory["terminal_reason"]),
            text=f"the episode ended by {trajectory['terminal_reason']}"
            + (
                f" ({trajectory['failure_class']}: {trajectory['failure_cause']})"
                if trajectory["failure_class"]
                else ""
            ),
            source=f"SELECT terminal_reason {where}",
        )
    ]
    if trajectory["reward"] is None:
        reason = str(trajectory["unscored_reason"])
        text = f"it has no reward: {reason}"
        facts.append(Fact(name="unscored_reason", value=reason, text=text, source=f"SELECT unscored_reason {where}"))
    else:
        facts += _reward(trajectory, where)
    facts += _verdicts(asked, name)
    return Answer(
        title="reward: what the episode earned, and what said so", facts=tuple(facts), parts=(_seen(asked, trajectory),)
    )


def _reward(trajectory: Row, where: str) -> Iterator[Fact]:
    reward = float(cast("float", trajectory["reward"]))
    parts = cast("Sequence[Mapping[str, object]]", trajectory["reward_components"])
    terms = [f"{_number(p['weight'])} · {_number(p['value'])} ({p['name']})" for p in parts]
    arithmetic = f" = {' + '.join(terms)}" if terms else ""
    yield Fact(
        name="reward",
        value=reward,
        text=f"reward = {reward:.9g}{arithmetic}, by rule {trajectory['reward_rule']}",
        source=f"SELECT reward {where}",
    )
    for place, part in enumerate(parts):
        value = float(cast("float", part["value"]))
        yield Fact(
            name=f"part:{part['name']}",
            value=value,
            text=f"part {part['name']}: value {value:.9g}, weight {_number(part['weight'])}",
            source=f"SELECT reward_components[{place + 1}].value {where}",
        )


def _verdicts(asked: Asked, name: str) -> Iterator[Fact]:
    rows = asked.rows(
        f"SELECT * FROM verdicts WHERE trajectory_id = {name} ORDER BY scoring, verifier, scope, segment, token_start"
    )
    for row in rows:
        said = f"{row['value']:.9g}" if row["value"] is not None else f"no number ({row['error_cause']})"
        where = "" if row["scope"] in ("trajectory", "group") else f" of {row['scope']} in segment {row['segment']}"
        later = "" if row["scoring"] == 0 else f" (scoring {row['scoring']}, not trained on)"
        evidence = f", evidence: {row['evidence']}" if row["evidence"] else ""
        finding = f", finding {row['finding']}" if row["finding"] else ""
        yield Fact(
            name=f"verdict:{row['verifier']}" if row["scoring"] == 0 else f"verdict:{row['verifier']}:{row['scoring']}",
            value=cast("float | None", row["value"]),
            text=f"verifier {row['verifier']} (revision {row['verifier_revision']}) said {said}{where}{later}"
            f"{finding}{evidence}",
            source=f"SELECT value FROM verdicts WHERE trajectory_id = {name} AND scoring = {row['scoring']} "
            f"AND verifier = {text_of(str(row['verifier']))} AND scope = {text_of(str(row['scope']))} "
            f"AND segment = {row['segment']} AND token_start = {row['token_start']}",
        )


def _seen(asked: Asked, trajectory: Row) -> Answer:
    """The passages and artifacts that the verifiers were shown."""
    name = text_of(str(trajectory["trajectory_id"]))
    task = asked.one(f"SELECT payload FROM tasks WHERE task_id = {text_of(str(trajectory['task_id']))}")
    facts = [
        Fact(
            name="task",
            value=str(trajectory["task_id"]),
            text=f"task {trajectory['task_id']}: {_cut(str(task['payload']) if task else 'its row is missing')}",
            source=f"SELECT task_id FROM trajectories WHERE trajectory_id = {name}",
        )
    ]
    for row in asked.rows(
        f"SELECT segment, origin, token_ids FROM segments WHERE trajectory_id = {name} "
        "AND copied_from IS NULL AND len(token_ids) > 0 ORDER BY segment"
    ):
        if row["origin"] in _SEEN:
            text = asked.decode(cast("Sequence[int]", row["token_ids"]))
            shown = json.dumps(_cut(text), ensure_ascii=False)
            facts.append(
                Fact(
                    name=f"passage:{row['segment']}",
                    value=text,
                    text=f"{row['origin']}, segment {row['segment']}: {shown}",
                )
            )
    for artifact in cast("Sequence[Mapping[str, object]]", trajectory["artifacts"]):
        text = f"artifact {artifact['name']}, {artifact['bytes']} bytes, blobs/{artifact['sha256']}"
        facts.append(Fact(name=f"artifact:{artifact['name']}", value=str(artifact["sha256"]), text=text))
    return Answer(title="what the verifiers saw", facts=tuple(facts))


def _number(value: object) -> str:
    return f"{float(cast('float', value)):.9g}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
