"""What tools and environments say when something is wrong."""

__all__ = ["EnvironmentSetupError", "ToolError"]


class ToolError(Exception):
    """Raised by a tool for what the policy asked; its text is shown to the policy."""


class EnvironmentSetupError(ValueError):
    """An environment, a tool or a demonstration that cannot be built as given."""
