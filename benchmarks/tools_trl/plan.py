"""The plan, and where the prepared files lie. The standard library alone, for both interpreters."""

import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["CACHE", "PLAN", "ROOT", "digest_of", "model_folder", "peer_python", "tasks_file"]

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "benchmarks" / ".cache" / "tools_trl"
PLAN: dict[str, Any] = tomllib.loads((Path(__file__).parent / "plan.toml").read_text(encoding="utf-8"))


def model_folder(name: str) -> Path:
    """Of a warm-started model, with its tokenizer and chat template; another plan has another folder."""
    return CACHE / f"model-{name}-{digest_of(PLAN['warm_start'], PLAN['models'][name])}"


def digest_of(*parts: object) -> str:
    """Of what is written in the plan, whatever its order."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def tasks_file(seed: int, count: int) -> Path:
    """So many training tasks in the order in which a run of this seed draws them, one JSON object a line."""
    return CACHE / f"tasks-{seed}-{count}.jsonl"


def peer_python() -> str:
    """TRL's interpreter.

    Raises:
        FileNotFoundError: with the command that makes its environment.
    """
    python = os.environ.get("ROLLWRIGHT_TRL_PYTHON") or str(ROOT / ".venv-trl" / "bin" / "python")
    if not Path(python).is_file():
        raise FileNotFoundError(f"there is no {python}; `make setup-trl` makes the environment that TRL runs in.")
    return python
