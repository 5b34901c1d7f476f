"""The card of a promoted checkpoint, in claim language: what one experiment reports, and what it does not license."""

from collections.abc import Mapping, Sequence
from typing import cast

__all__ = ["card"]

Tree = Mapping[str, object]


def card(proof: Tree) -> str:
    """README.md of a promoted checkpoint.

    Args:
        proof: what `evidence.json` holds; the card says nothing else.
    """
    run, model, protocol = (cast("Tree", proof[name]) for name in ("run", "model", "protocol"))
    gates, figures, alarms = (cast("Sequence[Tree]", proof[name]) for name in ("gates", "figures", "alarms"))
    return "\n".join(
        [
            "---",
            "library_name: transformers",
            "pipeline_tag: text-generation",
            "---",
            "",
            f"# {run['recipe']}, step {run['step']}",
            "",
            f"A checkpoint of the run `{run['run_id']}`{_titled(run['title'])}: {model['architecture']} with "
            f"{model['num_parameters']:,} parameters, after step {run['step']}, seed {run['seed']}. It was written "
            "because every gate below, fixed before the run, passed. `evidence.json` holds the same for a machine.",
            "",
            "## What is claimed",
            "",
            "The experiment reports, on held-out tasks and under protocol "
            f"`{protocol['name']}` (sha256 `{protocol['sha256']}`):",
            "",
            "| measure | value | interval | tasks |",
            "|---|---|---|---|",
            *(
                f"| {one['measure']} | {_value(one['value'])} | {_interval(one)} | {one['num_tasks']} |"
                for one in figures
            ),
            "",
            "These are measured results of one run at one seed under one protocol. They do not show that the method "
            "helps at another seed, on another model or on other tasks: a claim about training needs three or more "
            "seeds, tasks that were never trained on, and a second verifier that agrees. A reward that was earned is "
            "no proof that no reward was hacked.",
            "",
            "## Gates",
            "",
            "| gate | what | limit | evidence of the limit | number | verdict |",
            "|---|---|---|---|---|---|",
            *(_gate(one) for one in gates),
            "",
            "Labels: D the limit is disclosed by its source, C confirmed in a released artifact, I inferred or chosen, "
            "U unknown.",
            "",
            "## Alarms",
            "",
            *([f"- step {one['step']}: {one['text']}" for one in alarms] or ["None rose up to this step."]),
            "",
            "## What it is bound to",
            "",
            "| link | value |",
            "|---|---|",
            *(f"| {name} | `{value}` |" for name, value in _links(proof)),
            "",
        ]
    )


def _gate(one: Tree) -> str:
    bound = f"{str(one['bound']).replace('_', ' ')} {one['limit']:g}"
    number = f"{_value(one['value'])} {_interval(one)} of {one['num_items']}"
    source = f"{one['label']}: {one['source']}"
    cells = (one["gate"], one["what"], bound, source, number, one["outcome"])
    return f"| {' | '.join(map(_cell, cells))} |"


def _links(proof: Tree) -> list[tuple[str, object]]:
    run, model = cast("Tree", proof["run"]), cast("Tree", proof["model"])
    environment, reward = cast("Tree", proof["environment"]), cast("Tree", proof["reward"])
    data = cast("Sequence[Tree]", proof["data"])
    return [
        ("code commit", run["code_commit"]),
        ("configuration", run["config_sha256"]),
        ("manifest", run["manifest_sha256"]),
        ("checkpoint in the run", run["checkpoint_sha256"]),
        ("initial weights", model["initial_weights_sha256"]),
        ("tokenizer", model["tokenizer_revision"]),
        *((f"data {one['id']}", f"{one['revision']}, {one['license']}") for one in data),
        (f"environment {environment['name']}", environment["revision"]),
        *((f"verifier {name}", revision) for name, revision in cast("Tree", reward["verifiers"]).items()),
        ("containers", _listed(run["container_digests"])),
        *((f"file {name}", digest) for name, digest in cast("Tree", model["files"]).items()),
    ]


def _titled(title: object) -> str:
    return f" ({title})" if title else ""


def _cell(text: object) -> str:
    """Text that stays in its cell of a table."""
    return " ".join(str(text).replace("|", "\\|").split())


def _listed(value: object) -> str:
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else str(value)


def _value(value: object) -> str:
    return "undefined" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _interval(one: Tree) -> str:
    low, high = one["low"], one["high"]
    if low is None or high is None:
        return "no interval"
    return f"[{_value(low)}, {_value(high)}] at {one['level']}"
