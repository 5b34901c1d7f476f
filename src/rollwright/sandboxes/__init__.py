"""Untrusted programs under limits, behind a wall. Knows no task, episode or verdict."""

from rollwright.sandboxes.errors import (
    SandboxError,
    SandboxFileError,
    SandboxSetupError,
    SandboxUnavailableError,
)
from rollwright.sandboxes.opening import open_sandboxes
from rollwright.sandboxes.sandbox import (
    Isolation,
    Sandbox,
    Sandboxes,
    SandboxLimits,
    SandboxProfile,
    SandboxResult,
    SandboxStatus,
)

__all__ = [
    "Isolation",
    "Sandbox",
    "SandboxError",
    "SandboxFileError",
    "SandboxLimits",
    "SandboxProfile",
    "SandboxResult",
    "SandboxSetupError",
    "SandboxStatus",
    "SandboxUnavailableError",
    "Sandboxes",
    "open_sandboxes",
]
