"""Under which manifest a resumed run goes on: that of its newest segment, of an earlier one, or of a new one.

what is here now, compared with the newest segment:
    nothing differs ──► the newest segment
    it is like an earlier one, and what came after that one never happened ──► that one again
    something differs, and a reason was given ──► a new segment
    otherwise ──► refused, with what differs
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from rollwright.evidence import (
    Checkpoint,
    ConfigValue,
    Difference,
    Manifest,
    RunFolder,
    SegmentSection,
    differences_text,
    manifest_differences,
)
from rollwright.recipes.build.identity import event_now
from rollwright.recipes.errors import RecipeError
from rollwright.runtime.observers import Observer

__all__ = ["Continuation", "choose_segment", "enter_segment"]

_SHOWN = 12
_SUMMARIES = {"run.config_sha256": "configuration.", "run.code_sha256": "digests.code/"}
"""A digest of many values, and where these stand themselves."""
_FIRST = ("environment.", "data.", "reward.", "evaluation.", "configuration.", "digests.", "run.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The manifest that a resumed run goes on under."""

    number: int
    """Of its segment."""
    opened: Manifest | None
    """Of a segment that begins now; None: it is there already."""
    differences: tuple[Difference, ...]
    """Between that segment and now: none of them makes another experiment."""


def choose_segment(
    folder: RunFolder, now: Manifest, checkpoint: Checkpoint | None, *, reason: str | None, at: datetime
) -> Continuation:
    """Find the segment that a run goes on in.

    Args:
        folder: of the run; nothing in it is changed.
        now: the manifest that the present code, recipe and machine would have.
        checkpoint: that is gone on from; None: the run had not come to its first.
        reason: for a new segment, as the person gave it; None: none is to begin.
        at: now.

    Raises:
        RecipeError: where something differs that needs a new segment and none was asked for, where nothing does and one
            was, and where something differs under which no checkpoint can be gone on with.
    """
    differences = manifest_differences(folder.manifest, now)
    _refuse_impossible(folder.path, differences)
    count = len(folder.manifests)
    others = _of_another_experiment(differences)
    if not others:
        if reason is not None:
            raise RecipeError(
                f"nothing that makes another experiment has changed since segment {count} of {folder.path} began; go "
                "on without --new-segment."
            )
        return Continuation(number=count, opened=None, differences=differences)
    if reason is None:
        back = _earlier_like_now(folder, now, checkpoint)
        if back is not None:
            return back
        raise RecipeError(_refusal(folder.path, others))
    if not reason.strip():
        raise RecipeError("--new-segment takes the reason, in words; it is kept with the run.")
    opened = _opened(folder, now, others, checkpoint, reason.strip(), at)
    return Continuation(number=count + 1, opened=opened, differences=_rest(differences))


def enter_segment(folder: RunFolder, chosen: Continuation, observer: Observer) -> None:
    """Let the run be in the segment that was chosen, and say so; a kill in between leaves it in the old or the new one.

    Args:
        folder: of the run; the commits behind the checkpoint are abandoned already.
        chosen: by `choose_segment`.
        observer: is told what a person should know.
    """
    if chosen.opened is not None and chosen.opened.segment is not None:
        segment = chosen.opened.segment
        folder.open_segment(chosen.opened)
        text = f"segment {segment.number} begins after step {segment.after_step}: {segment.reason}"
        observer.warned(f"{text} ({differences_text(_told(segment.differences), most=3)})")
        folder.record_event(event_now("segment_opened", text, step=segment.after_step))
    elif chosen.number < len(folder.manifests):
        folder.abandon_segments_after(chosen.number)
        text = f"the run goes on in segment {chosen.number}; what came after it never happened"
        observer.warned(text)
        folder.record_event(event_now("segment_abandoned", text))
    broken = [d for d in chosen.differences if d.effect == "promise"]
    if broken:
        text = differences_text(broken, most=5)
        observer.warned(f"the run goes on under other conditions, so the deterministic promise ends: {text}")
        folder.record_event(event_now("promise_ended", text))


def _earlier_like_now(folder: RunFolder, now: Manifest, checkpoint: Checkpoint | None) -> Continuation | None:
    """The newest earlier segment that is like now, where no commit of a later one would be left."""
    left = folder.commits_kept(0 if checkpoint is None else checkpoint.commit)
    manifests = folder.manifests
    needed = max((manifests.index(folder.manifest_of(commit)) + 1 for commit in left), default=1)
    for number in range(len(manifests) - 1, needed - 1, -1):
        differences = manifest_differences(manifests[number - 1], now)
        if not _of_another_experiment(differences) and all(d.effect != "refused" for d in differences):
            return Continuation(number=number, opened=None, differences=differences)
    return None


def _opened(
    folder: RunFolder,
    now: Manifest,
    others: tuple[Difference, ...],
    checkpoint: Checkpoint | None,
    reason: str,
    at: datetime,
) -> Manifest:
    segment = SegmentSection(
        number=len(folder.manifests) + 1,
        reason=reason,
        opened_at=at,
        after_step=0 if checkpoint is None else checkpoint.step,
        previous_sha256=folder.newest_manifest_sha256,
        differences=others,
    )
    before = {value.key: value for value in folder.manifest.configuration}
    return replace(
        now, segment=segment, configuration=tuple(_origin_kept(before, value) for value in now.configuration)
    )


def _origin_kept(before: dict[str, ConfigValue], value: ConfigValue) -> ConfigValue:
    """A value that stayed keeps who set it; one that changed was changed in the folder's recipe."""
    stored = before.get(value.key)
    if stored is not None and stored.value == value.value:
        return stored
    origin = value.origin if value.origin == "default" else "recipe.toml of the run, edited"
    return replace(value, origin=origin, label=None)


def _of_another_experiment(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    return tuple(d for d in differences if d.effect == "segment")


def _rest(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    return tuple(d for d in differences if d.effect != "segment")


def _refuse_impossible(path: Path, differences: Sequence[Difference]) -> None:
    impossible = [d for d in differences if d.effect == "refused"]
    if impossible:
        raise RecipeError(
            f"{_sentence(impossible[0])}, and {path} cannot go on under that, in no segment: weights, tokens and "
            f"places of its checkpoints would mean something else. {differences_text(impossible, most=_SHOWN)}. Put it "
            "back, or start a new run."
        )


def _refusal(path: Path, others: Sequence[Difference]) -> str:
    told = _told(others)
    return (
        f"{_sentence(told[0])}, so {path} would hold two experiments without saying so. What differs from its newest "
        f"segment: {differences_text(told, most=_SHOWN)}. Put back what it was, or go on under a new segment that says "
        f'so: `rollwright resume {shlex.quote(str(path))} --new-segment "REASON"`.'
    )


def _told(others: Sequence[Difference]) -> tuple[Difference, ...]:
    """What a person reads: what happens in episodes first, and no digest of values that are told themselves."""
    paths = [d.path for d in others]
    kept = [
        d for d in others if d.path not in _SUMMARIES or not any(path.startswith(_SUMMARIES[d.path]) for path in paths)
    ]
    rank = {prefix: place for place, prefix in enumerate(_FIRST)}
    return tuple(sorted(kept, key=lambda d: next((rank[p] for p in _FIRST if d.path.startswith(p)), len(_FIRST))))


def _sentence(difference: Difference) -> str:
    return f"{difference.path} was {difference.stored} and is {difference.now}"
