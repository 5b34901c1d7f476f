"""What the sandboxes say when something is wrong."""

__all__ = ["SandboxError", "SandboxSetupError", "SandboxUnavailableError"]


class SandboxError(Exception):
    """A sandbox failed by no doing of the program inside it; the episode is retried."""


class SandboxSetupError(ValueError):
    """A profile or a pool that cannot be made as given."""


class SandboxUnavailableError(SandboxSetupError):
    """This machine does not give the isolation that was asked for; nothing weaker is taken in its place."""
