"""The plan, and where the prepared files lie. The standard library alone, for both interpreters."""

import os
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["CACHE", "PLAN", "ROOT", "model_folder", "peer_python", "tasks_file"]

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "benchmarks" / ".cache" / "tools_trl"
PLAN: dict[str, Any] = tomllib.loads((Path(__file__).parent / "plan.toml").read_text(encoding="utf-8"))


def model_folder(name: str) -> Path:
    """Of a warm-started model, with its tokenizer and chat template."""
    return CACHE / f"model-{name}"


def tasks_file(name: str) -> Path:
    """Tasks in order, one JSON object a line: `train-SEED`, `tuning` or `held-out`."""
    return CACHE / f"tasks-{name}.jsonl"


def peer_python() -> str:
    """TRL's interpreter."""
    return os.environ.get("ROLLWRIGHT_TRL_PYTHON") or str(ROOT / ".venv-trl" / "bin" / "python")
