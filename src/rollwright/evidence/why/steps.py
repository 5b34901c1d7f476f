"""Which tokens moved a step most, and why; one episode in a step."""

import json
from collections.abc import Iterator, Sequence
from typing import cast

from rollwright.evidence.errors import EvidenceError
from rollwright.evidence.why.answers import Answer, Fact
from rollwright.evidence.why.asking import Asked, Row, TokenPlace, text_of
from rollwright.evidence.why.credit import credit_answer
from rollwright.evidence.why.rewards import reward_answer
from rollwright.evidence.why.tokens import token_answer
from rollwright.evidence.why.untrained import slot_fact
from rollwright.evidence.why.words import CUT, HELD, counted, flag_words, reason_words

__all__ = ["step_answer", "trajectory_answer"]

_PULL = (
    "the pull of a token is |weight · correction · advantage| · (1 − p), p its probability: what its own logit felt, "
    "and nothing where a clip held it"
)
_FLAT = frozenset({"clip", "dual_clip", "clip_cov", "sequence_clip"})
"""Surrogates that have no gradient where their clip holds."""
_TOKENS = """WITH main AS (SELECT * FROM receipts r WHERE r.step = {step} AND r.model = 'policy' AND r.influence > 0
    ORDER BY influence DESC LIMIT 400),
  spread AS (SELECT update, trajectory_id, segment, lag, unnest(range(len(expand(token_weight)))) AS index,
    unnest(expand(token_weight)) AS weight, unnest(expand(advantage)) AS advantage,
    unnest(coalesce(expand(correction), list_resize([]::FLOAT[], len(expand(token_weight)), 1))) AS correction,
    unnest(expand(flags)) AS flags,
    unnest(coalesce(current_logprobs, proximal_logprobs, list_resize([]::FLOAT[], len(expand(token_weight)), NULL)))
      AS logprob
    FROM main)
  SELECT trajectory_id, segment, index, sum(abs(weight * correction * advantage)) AS moved,
    sum(abs(weight * correction * advantage) * (1 - exp(coalesce(logprob, -1e9)))
      * (flags & {held} = 0)::INT) AS pull,
    any_value(advantage) AS advantage, any_value(weight) AS weight, count(*) AS updates, bit_or(flags) AS flags,
    any_value(logprob) AS logprob
  FROM spread WHERE flags & {cut} = 0 AND weight <> 0 {chosen} GROUP BY ALL
  ORDER BY pull DESC, trajectory_id, segment, index LIMIT {most}"""
_EPISODES = """SELECT t.trajectory_id, task_id, reward, sum(influence) AS moved, any_value(terminal_reason) AS ended,
    sum(num_eligible) AS tokens, max(untrained_reason) AS untrained
  FROM receipts JOIN trajectories t USING (trajectory_id) WHERE step = {step} AND model = 'policy'
  GROUP BY ALL ORDER BY moved DESC, t.trajectory_id LIMIT {most}"""


def step_answer(asked: Asked, step: int, *, most: int = 10) -> Answer:
    """What moved a step.

    Args:
        asked: the run.
        step: counted over all stages.
        most: tokens and episodes that are named.

    Raises:
        EvidenceError: for a step that the run does not have.
    """
    asked.step(step)
    total = asked.one(
        f"""SELECT count(DISTINCT update) AS updates, count(DISTINCT trajectory_id) AS episodes, sum(influence) AS moved
        FROM receipts WHERE step = {step} AND model = 'policy'"""
    )
    if total is None or not total["updates"]:
        return Answer(title=f"step {step}", facts=(_nothing(asked, step),))
    moved = float(cast("float", total["moved"] or 0.0))
    facts = [
        Fact(
            name="influence",
            value=moved,
            text=f"{counted(total['updates'], 'update')}, {counted(total['episodes'], 'episode')}; together they moved "
            f"Σ |weight · correction · advantage| = {moved:.9g}",
            source=f"SELECT sum(influence) FROM receipts WHERE step = {step} AND model = 'policy'",
        ),
        *_untrained(asked, step),
    ]
    tokens = _tokens(asked, step, moved, most, None)
    parts = [_episodes(asked, step, moved, most), tokens]
    first = next((f.name.removeprefix("token:") for f in tokens.facts if f.name.startswith("token:")), None)
    if first is not None:
        parts.append(token_answer(asked, TokenPlace.of(first), step))
    return Answer(title=f"step {step}", facts=tuple(facts), parts=tuple(parts))


def trajectory_answer(asked: Asked, name: str, step: int | None = None, *, most: int = 10) -> Answer:
    """What one episode did, in a step or in all.

    Args:
        asked: the run.
        name: its id.
        step: None: the step that trained it.
        most: tokens that are named.

    Raises:
        EvidenceError: for an episode that the run does not have, or that a given step did not train.
    """
    trajectory = asked.trajectory(name)
    trained = [
        cast("int", row["step"])
        for row in asked.rows(f"SELECT DISTINCT step FROM receipts WHERE trajectory_id = {text_of(name)} ORDER BY step")
    ]
    if step is not None:
        asked.step(step)
        if step not in trained:
            when = f"it was trained in step {', '.join(map(str, trained))}" if trained else "no step trained it"
            raise EvidenceError(f"step {step} has no receipt of {name}; {when}.")
        trained = [step]
    facts = [
        Fact(
            name="purpose",
            value=str(trajectory["purpose"]),
            text=f"{trajectory['purpose']}: group {trajectory['group_id']}, slot {trajectory['slot']}, attempt "
            f"{trajectory['attempt']}"
            + (f", {trajectory['lineage']} {trajectory['parent_trajectory_id']}" if trajectory["lineage"] else ""),
        )
    ]
    slot = slot_fact(asked, trajectory) if trajectory["purpose"] == "train" else None
    facts += [slot] if slot is not None else []
    parts: list[Answer] = []
    for of_step in trained:
        row = asked.one(
            f"SELECT sum(influence) AS moved FROM receipts WHERE step = {of_step} AND trajectory_id = {text_of(name)}"
        )
        moved = float(cast("float", (row or {}).get("moved") or 0.0))
        facts += _segments(asked, name, of_step)
        parts.append(_tokens(asked, of_step, moved, most, name))
        parts.append(credit_answer(asked, trajectory, of_step, None))
    parts.append(reward_answer(asked, trajectory))
    return Answer(title=f"episode {name}", facts=tuple(facts), parts=tuple(parts))


def _nothing(asked: Asked, step: int) -> Fact:
    held = asked.one(
        f"SELECT count(*) AS rows, string_agg(DISTINCT evaluation, ', ') AS names FROM evaluations WHERE step = {step}"
    )
    said = f"; it holds the evaluation {held['names']}" if held is not None and held["rows"] else ""
    return Fact(name="influence", value=0.0, text=f"step {step} made no update{said}")


def _untrained(asked: Asked, step: int) -> Iterator[Fact]:
    for row in asked.rows(
        f"""SELECT untrained_reason AS reason, count(*) AS segments, count(DISTINCT trajectory_id) AS episodes
        FROM receipts WHERE step = {step} AND untrained_reason IS NOT NULL AND model = 'policy'
        GROUP BY ALL ORDER BY ALL"""
    ):
        reason = str(row["reason"])
        yield Fact(
            name=f"untrained:{reason}",
            value=cast("int", row["episodes"]),
            text=f"{row['episodes']} episodes moved nothing ({reason}): {reason_words(reason)}",
            source=f"SELECT count(DISTINCT trajectory_id) FROM receipts WHERE step = {step} "
            f"AND untrained_reason = {text_of(reason)} AND model = 'policy'",
        )


def _episodes(asked: Asked, step: int, moved: float, most: int) -> Answer:
    facts: list[Fact] = []
    for row in asked.rows(_EPISODES.format(step=step, most=most)):
        name, own = str(row["trajectory_id"]), float(cast("float", row["moved"]))
        reward = "no reward" if row["reward"] is None else f"reward {row['reward']:.9g}"
        share = f", {own / moved:.2%} of the step" if moved else ""
        facts.append(
            Fact(
                name=f"episode:{name}",
                value=own,
                text=f"{name}: moved {own:.9g}{share}; {reward}, {row['ended']}, {row['tokens']} tokens, "
                f"task {row['task_id']}",
                source=f"SELECT sum(influence) FROM receipts WHERE step = {step} AND trajectory_id = {text_of(name)}",
            )
        )
    return Answer(title="episodes that moved it most", facts=tuple(facts))


def _segments(asked: Asked, name: str, step: int) -> Iterator[Fact]:
    for row in asked.rows(
        f"""SELECT update, component, segment, num_kept, num_eligible, influence, untrained_reason FROM receipts
        WHERE step = {step} AND trajectory_id = {text_of(name)} ORDER BY update, segment, component"""
    ):
        reason = row["untrained_reason"]
        why = "" if reason is None else f"; {reason_words(str(reason))}"
        yield Fact(
            name=f"segment:{row['segment']}:{row['update']}:{row['component']}",
            value=cast("float", row["influence"]),
            text=f"update {row['update']}, {row['component']}, segment {row['segment']}: {row['num_kept']} of "
            f"{row['num_eligible']} tokens kept, influence {row['influence']:.9g}{why}",
            source=f"SELECT influence FROM receipts WHERE update = {row['update']} AND trajectory_id = {text_of(name)} "
            f"AND segment = {row['segment']} AND component = {text_of(str(row['component']))}",
        )


def _tokens(asked: Asked, step: int, moved: float, most: int, name: str | None) -> Answer:
    title = "tokens that felt it most"
    if asked.retention == "sums":
        text = "evidence.receipts = sums dropped what each token weighed; the episodes are all that can be named"
        return Answer(title=title, facts=(Fact(name="dropped", value=None, text=text),))
    held = HELD if asked.configuration.get("objective.surrogate.kind", "").strip('"') in _FLAT else 0
    chosen = "" if name is None else f"AND trajectory_id = {text_of(name)}"
    rows = asked.rows(_TOKENS.format(step=step, cut=CUT, held=held, most=most, chosen=chosen))
    facts = [Fact(name="measure", value=None, text=_PULL)]
    facts += [_token(asked, row, moved) for row in rows]
    if not rows:
        facts.append(Fact(name="none", value=None, text="no token of it has an advantage and a weight"))
    return Answer(title=title, facts=tuple(facts))


def _token(asked: Asked, row: Row, moved: float) -> Fact:
    place = TokenPlace(
        trajectory_id=str(row["trajectory_id"]),
        segment=cast("int", row["segment"]),
        index=cast("int", row["index"]),
    )
    segment = asked.segment(place)
    ids = cast("Sequence[int]", segment["token_ids"])
    before = asked.decode(ids[max(0, place.index - 8) : place.index])
    behind = asked.decode(ids[place.index + 1 : place.index + 5])
    shown = json.dumps(f"{before}⟦{asked.decode([ids[place.index]])}⟧{behind}", ensure_ascii=False)
    own = float(cast("float", row["moved"]))
    share = f" ({own / moved:.2%})" if moved else ""
    flags = int(cast("int", row["flags"]))
    touched = f"; {'; '.join(flag_words(flags))}" if flags else ""
    pull = float(cast("float", row["pull"]))
    return Fact(
        name=f"token:{place}",
        value=pull,
        text=f"{place} {shown}: pull {pull:.6g}, moved {own:.6g}{share}, advantage {row['advantage']:.6g}, "
        f"weight {row['weight']:.6g}{touched}",
    )
