"""Untrusted programs under limits, behind a wall. Knows no task, episode or verdict."""

from rollwright.sandboxes.errors import SandboxError, SandboxSetupError, SandboxUnavailableError
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
    "SandboxLimits",
    "SandboxProfile",
    "SandboxResult",
    "SandboxSetupError",
    "SandboxStatus",
    "SandboxUnavailableError",
    "Sandboxes",
]
