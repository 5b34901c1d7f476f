"""One episode: its head, its segments as a forest, calls, verdicts and receipts, and the tokens of one window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rollwright.evidence import Commit
from rollwright.evidence.following import Look, Row
from rollwright.viewer.page.errors import NotFoundError
from rollwright.viewer.page.token_numbers import TokenNumbers, number_tokens

__all__ = ["Context", "Episode", "ReceiptChoice", "Window", "read_episode", "read_tokens"]

_TOKENS_SHOWN: Final = 2000
_LONGEST_TEXT: Final = 20_000
_MOST_ROWS: Final = 2000
_SEGMENT: Final = (
    "segment, parent, context, spawned_by, start, num_tokens, origin, actor, turn, policy, policy_version, "
    "cache_version, sampling, spans, finish, copied_from, call_id, state_hash"
)
_STREAMS: Final = (
    "proximal_logprobs",
    "current_logprobs",
    "reference_logprobs",
    "teacher_logprobs",
    "predicted_values",
    "value_targets",
)
_RUNS: Final = ("advantage", "token_weight", "correction", "flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A root and what follows: tokens that only grow."""

    number: int
    spawned_by: str | None
    forked_from: int | None
    """The segment of another context that it goes on from."""
    segments: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptChoice:
    """Which receipts the numbers of tokens are of."""

    step: int
    update: int
    model: str
    component: str

    @property
    def name(self) -> str:
        """As an address carries it."""
        return f"{self.update}/{self.model}/{self.component}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """All of an episode but its tokens."""

    head: Row
    step: int
    """Of the commit that holds it."""
    commit: Commit
    task: Row | None
    contexts: tuple[Context, ...]
    calls: tuple[Row, ...]
    verdicts: tuple[Row, ...]
    receipts: tuple[Row, ...]
    ledger: tuple[Row, ...]
    """Of its slot, in order."""
    siblings: tuple[Row, ...]
    """Episodes of its group, itself included."""
    choices: tuple[ReceiptChoice, ...]
    is_cut: bool
    """True where there are more segments than are listed."""

    @property
    def segments(self) -> tuple[Row, ...]:
        """By number."""
        return tuple(sorted((s for c in self.contexts for s in c.segments), key=lambda s: s["segment"]))

    def choice(self, name: str | None) -> ReceiptChoice | None:
        """The one of that name, or the first of the policy's gradient; None where it has no receipt."""
        named = [c for c in self.choices if c.name == name]
        gradient = [c for c in self.choices if (c.model, c.component) == ("policy", "policy_gradient")]
        return next(iter([*named, *gradient, *self.choices]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The tokens shown: whole segments from one on, or a part of one that is longer than a page."""

    tokens: Mapping[int, tuple[TokenNumbers, ...]]
    """By segment."""
    first: Mapping[int, int]
    """Place of the first token shown within its segment."""
    previous: tuple[int, int] | None
    """Segment and token where the window before this one begins."""
    following: tuple[int, int] | None


def read_episode(look: Look, name: str) -> Episode:
    """An episode by its id.

    Raises:
        NotFoundError: when the run has none of that id.
    """
    group = _group_of(look, name)
    head = next((row for row in group if row["trajectory_id"] == name), None)
    if head is None:
        raise NotFoundError(f"this run has no episode {name!r}; the table of episodes lists those that it has.")
    file = Path(str(head["filename"])).name
    commit = next(c for c in look.commits for s in c.shards if s.path == f"trajectories/{file}")
    ledger = _ledger(look, head)
    of_it = {"id": name}
    segments = look.ask(
        f"SELECT {_SEGMENT} FROM {{segments}} WHERE trajectory_id = $id ORDER BY segment LIMIT {_MOST_ROWS + 1}",
        of_it,
        commits=[commit],
    )
    receipts = look.ask(
        "SELECT step, update, model, component, segment, row_index, lag, num_eligible, num_kept, untrained_reason, "
        "entropy, max_log_ratio, loss, influence FROM {receipts} WHERE trajectory_id = $id "
        f"ORDER BY update, model, component, segment LIMIT {_MOST_ROWS}",
        of_it,
        commits=_trained_in(look, commit, ledger),
    )
    _mark_eligible(look, segments)
    return Episode(
        head=head,
        step=commit.step,
        commit=commit,
        task=_task(look, commit, str(head["task_id"])),
        contexts=_contexts(segments[:_MOST_ROWS]),
        calls=_calls(look, commit, of_it),
        verdicts=_verdicts(look, commit, of_it),
        receipts=tuple(receipts),
        ledger=ledger,
        siblings=tuple(sorted(group, key=lambda row: (row["slot"], row["attempt"]))),
        choices=_choices(receipts),
        is_cut=len(segments) > _MOST_ROWS,
    )


def read_tokens(look: Look, episode: Episode, choice: ReceiptChoice | None, start: tuple[int, int]) -> Window:
    """The tokens of a window, with their numbers of one update.

    Args:
        look: as the episode was read from.
        episode: whose tokens.
        choice: the receipts; None: none.
        start: segment and token that the window begins with; what does not exist begins at the start.
    """
    parts, previous, following = _parts(episode.segments, start)
    if not parts:
        return Window(tokens={}, first={}, previous=None, following=None)
    numbers = [segment["segment"] for segment, _, _ in parts]
    rows = look.ask(
        "SELECT segment, token_ids, behavior_logprobs FROM {segments} "
        "WHERE trajectory_id = $id AND segment BETWEEN $first AND $last ORDER BY segment",
        {"id": episode.head["trajectory_id"], "first": min(numbers), "last": max(numbers)},
        commits=[episode.commit],
    )
    held = {row["segment"]: row for row in rows}
    given, streams = _receipts_of(look, episode, choice, numbers)
    tokens: dict[int, tuple[TokenNumbers, ...]] = {}
    for segment, begin, end in parts:
        number = segment["segment"]
        row = {**segment, **_cut(held[number], begin, end)}
        tokens[number] = number_tokens(
            row, _cut_or_none(given.get(number), begin, end), _cut_or_none(streams.get(number), begin, end), begin
        )
    return Window(
        tokens=tokens, first={s["segment"]: begin for s, begin, _ in parts}, previous=previous, following=following
    )


def _parts(
    segments: Sequence[Row], start: tuple[int, int]
) -> tuple[list[tuple[Row, int, int]], tuple[int, int] | None, tuple[int, int] | None]:
    """Segment, first and last token of what is shown; where the windows before and behind it begin."""
    at = next((i for i, s in enumerate(segments) if s["segment"] == start[0]), 0)
    first = start[1] if segments and 0 <= start[1] < segments[at]["num_tokens"] else 0
    begin, room = (at, first), _TOKENS_SHOWN
    parts: list[tuple[Row, int, int]] = []
    following: tuple[int, int] | None = None
    while at < len(segments):
        size = int(segments[at]["num_tokens"])
        if parts and size - first > room:
            following = (int(segments[at]["segment"]), first)
            break
        end = min(size, first + max(room, 0))
        parts.append((segments[at], first, end))
        room -= end - first
        if end < size:
            following = (int(segments[at]["segment"]), end)
            break
        at, first = at + 1, 0
    return parts, _before(segments, begin), following


def _before(segments: Sequence[Row], begin: tuple[int, int]) -> tuple[int, int] | None:
    at, first = begin
    if first > 0:
        return int(segments[at]["segment"]), max(0, first - _TOKENS_SHOWN)
    room, found = _TOKENS_SHOWN, at
    while found > 0 and int(segments[found - 1]["num_tokens"]) <= room:
        found -= 1
        room -= int(segments[found]["num_tokens"])
    if found == at and at > 0:
        size = int(segments[at - 1]["num_tokens"])
        return int(segments[at - 1]["segment"]), max(0, size - _TOKENS_SHOWN)
    return (int(segments[found]["segment"]), 0) if found < at else None


def _receipts_of(
    look: Look, episode: Episode, choice: ReceiptChoice | None, numbers: Sequence[int]
) -> tuple[dict[int, Row], dict[int, Row]]:
    """By segment: the receipt of the choice, run-lengths expanded; and the row on which the streams stand."""
    if choice is None:
        return {}, {}
    runs = ", ".join(f"expand({name}) AS {name}" for name in _RUNS)
    rows = look.ask(
        f"SELECT segment, component, num_kept, entropy, {runs}, {', '.join(_STREAMS)} FROM {{receipts}} "
        "WHERE trajectory_id = $id AND update = $update AND model = $model AND segment BETWEEN $first AND $last",
        {
            "id": episode.head["trajectory_id"],
            "update": choice.update,
            "model": choice.model,
            "first": min(numbers),
            "last": max(numbers),
        },
        commits=[c for c in look.commits if c.step == choice.step],
    )
    given = {row["segment"]: row for row in rows if row["component"] == choice.component}
    streams: dict[int, Row] = {}
    for row in rows:
        if any(row[name] is not None for name in _STREAMS):
            known = streams.setdefault(row["segment"], {})
            known.update({n: row[n] for n in _STREAMS if row[n] is not None and n not in known})
    return given, streams


def _cut(row: Row, begin: int, end: int) -> Row:
    return {name: value[begin:end] if isinstance(value, list) else value for name, value in row.items()}


def _cut_or_none(row: Row | None, begin: int, end: int) -> Row | None:
    return None if row is None else _cut(row, begin, end)


def _contexts(segments: Sequence[Row]) -> tuple[Context, ...]:
    of: dict[int, list[Row]] = {}
    context_of = {s["segment"]: s["context"] for s in segments}
    children: dict[int | None, int] = {}
    for segment in segments:
        of.setdefault(segment["context"], []).append(segment)
        children[segment["parent"]] = children.get(segment["parent"], 0) + 1
    for segment in segments:
        segment["num_children"] = children.get(segment["segment"], 0)
    return tuple(
        Context(
            number=number,
            spawned_by=rows[0]["spawned_by"],
            forked_from=rows[0]["parent"] if context_of.get(rows[0]["parent"], number) != number else None,
            segments=tuple(rows),
        )
        for number, rows in sorted(of.items())
    )


def _mark_eligible(look: Look, segments: Sequence[Row]) -> None:
    pairs = {(row.origin, row.policy) for row in look.eligible}
    for segment in segments:
        segment["is_eligible"] = (segment["origin"], segment["policy"]) in pairs


def _choices(receipts: Sequence[Row]) -> tuple[ReceiptChoice, ...]:
    keys = dict.fromkeys((r["step"], r["update"], r["model"], r["component"]) for r in receipts)
    return tuple(ReceiptChoice(step=s, update=u, model=m, component=c) for s, u, m, c in keys)


def _calls(look: Look, commit: Commit, of_it: Mapping[str, object]) -> tuple[Row, ...]:
    return tuple(
        look.ask(
            f"SELECT * REPLACE (left(arguments, {_LONGEST_TEXT}) AS arguments, left(result, {_LONGEST_TEXT}) AS "
            "result), "
            "length(arguments) AS arguments_length, length(result) AS result_length FROM {tool_calls} "
            f"WHERE trajectory_id = $id ORDER BY asked_in, call_id LIMIT {_MOST_ROWS}",
            of_it,
            commits=[commit],
        )
    )


def _verdicts(look: Look, commit: Commit, of_it: Mapping[str, object]) -> tuple[Row, ...]:
    holding = [c for c in look.commits if c.number == commit.number or c.kind in ("score", "merge")]
    return tuple(
        look.ask(
            f"SELECT * REPLACE (left(evidence, {_LONGEST_TEXT}) AS evidence), length(evidence) AS evidence_length "
            "FROM {verdicts} WHERE trajectory_id = $id ORDER BY scoring, verifier, scope, segment, token_start "
            f"LIMIT {_MOST_ROWS}",
            of_it,
            commits=holding,
        )
    )


def _task(look: Look, commit: Commit, task_id: str) -> Row | None:
    """A task is kept by the commit that met it first; often that of the episode."""
    holding = look.holding("tasks")
    for commits in ([c for c in holding if c.number == commit.number], holding):
        found = look.ask(
            f"SELECT task_id, source, revision, split, left(payload, {_LONGEST_TEXT}) AS payload, "
            "length(payload) AS payload_length FROM {tasks} WHERE task_id = $task LIMIT 1",
            {"task": task_id},
            commits=commits,
        )
        if found:
            return found[0]
    return None


def _trained_in(look: Look, commit: Commit, ledger: Sequence[Row]) -> tuple[Commit, ...]:
    """Commits that may hold receipts of an episode: the ledger says which step trained its slot."""
    steps = {row["step"] for row in ledger if row["state"] == "trained"}
    if steps:
        return tuple(c for c in look.commits if c.step in steps)
    return tuple(c for c in look.holding("receipts") if c.number >= commit.number)


def _ledger(look: Look, head: Row) -> tuple[Row, ...]:
    return tuple(
        look.ask(
            "SELECT seq, recorded_at, step, attempt, state, rule, trajectory_id, successor, policy_version FROM "
            "{ledger} "
            "WHERE group_id = $group AND slot = $slot ORDER BY seq LIMIT 200",
            {"group": head["group_id"], "slot": head["slot"]},
            commits=look.holding("ledger"),
        )
    )


def _group_of(look: Look, name: str) -> list[Row]:
    """An episode and those of its group and purpose; their ids begin alike, so that most files need not be read."""
    prefix, dash, _ = name.partition("-")
    return look.ask(
        "SELECT *, filename FROM {trajectories} WHERE trajectory_id >= $first AND trajectory_id < $behind "
        "ORDER BY trajectory_id <> $id, slot, attempt LIMIT 200",
        {"id": name, "first": prefix + dash, "behind": prefix + chr(ord("-") + 1)},
        commits=look.holding("trajectories"),
    )
