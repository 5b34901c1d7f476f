"""What a run that goes on now would no longer share with its manifest, and what that does to it."""

from dataclasses import replace

from pydantic import TypeAdapter

from rollwright.evidence.manifest import UNKNOWN, Difference, Effect, Manifest

__all__ = ["differences_text", "manifest_differences"]

_ABSENT = "absent"
_OF_THE_OCCASION = ("run.run_id", "run.created_at", "machine.memory_bytes", "machine.num_cores", "segment.")
_DECIDES_NOTHING = "configuration.exporters"
_REFUSED = (
    "model.architecture",
    "model.num_parameters",
    "model.tokenizer_revision",
    "model.chat_template_sha256",
    "configuration.model.",
    "configuration.stages.",
)
"""Weights, tokens and places of a checkpoint would mean something else."""
_SEGMENT = (
    "run.code_sha256",
    "run.config_sha256",
    "configuration.",
    "data.prompt_sources.",
    "digests.",
    "environment.name",
    "environment.revision",
    "environment.image_digest",
    "environment.network_or_index_snapshot",
    "evaluation.protocol_sha256",
    "reward.rule",
    "reward.judges.",
    "reward.verifier_revisions.",
    "seeds.",
)
_PROMISE = (
    "model.",
    "run.framework_versions.",
    "machine.cpu_model",
    "machine.torch_capability",
    "machine.threads.",
    "machine.num_ranks",
    "machine.accelerators",
)
_ADAPTER = TypeAdapter(Manifest)


def manifest_differences(stored: Manifest, now: Manifest) -> tuple[Difference, ...]:
    """Fields in which a run resumed now would differ from its newest segment.

    Args:
        stored: the folder's.
        now: made from the present code, configuration and machine.

    Returns:
        One difference a field, by path; identity, times and segments are not compared.
    """
    before, after = _flat(stored), _flat(now)
    return tuple(
        Difference(path=path, stored=was, now=present, effect=_effect(path, was, present))
        for path in sorted(before.keys() | after.keys())
        if (was := before.get(path, _ABSENT)) != (present := after.get(path, _ABSENT))
        and not path.startswith(_OF_THE_OCCASION)
    )


def differences_text(differences: tuple[Difference, ...] | list[Difference], *, most: int) -> str:
    """The first of them, and how many more there are."""
    text = "; ".join(f"{d.path} was {d.stored} and is {d.now}" for d in differences[:most])
    return f"{text}; and {len(differences) - most} more" if len(differences) > most else text


def _effect(path: str, was: str, now: str) -> Effect:
    if path.startswith(_DECIDES_NOTHING):
        return "noted"
    # A key that only one version of the code has is a change of the code.
    if path.startswith(_REFUSED) and not (path.startswith("configuration.") and _ABSENT in (was, now)):
        return "refused"
    if path.startswith(_SEGMENT):
        return "segment"
    return "promise" if path.startswith(_PROMISE) else "noted"


def _flat(manifest: Manifest) -> dict[str, str]:
    # Of sources that nobody could read, the commit is what is known.
    if manifest.run.code_sha256 == UNKNOWN:
        manifest = replace(manifest, run=replace(manifest.run, code_sha256=manifest.run.code_commit))
    found: dict[str, str] = {}
    dumped: object = _ADAPTER.dump_python(manifest, mode="json", exclude={"configuration"})
    _flatten("", dumped, found)
    for value in manifest.configuration:
        found[f"configuration.{value.key}"] = value.value
    return found


def _flatten(path: str, value: object, found: dict[str, str]) -> None:
    match value:
        case dict():
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]  # JSON
                _flatten(f"{path}.{key}".lstrip("."), inner, found)  # pyright: ignore[reportUnknownArgumentType] - JSON
        case list():
            for index, inner in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
                _flatten(f"{path}.{index}", inner, found)  # pyright: ignore[reportUnknownArgumentType] - JSON
        case _:
            found[path] = str(value)
