"""What the sandboxes say when something is wrong."""

__all__ = ["SandboxError", "SandboxFileError", "SandboxSetupError", "SandboxUnavailableError"]


class SandboxError(Exception):
    """A sandbox failed by no doing of the program inside it; the episode is retried."""


class SandboxFileError(ValueError):
    """A file that cannot be written for a reason inside the sandbox: a full disk, a link or a folder in its place."""


class SandboxSetupError(ValueError):
    """A profile or a pool that cannot be made as given."""


class SandboxUnavailableError(SandboxSetupError):
    """This machine does not give the isolation that was asked for; nothing weaker is taken in its place."""
