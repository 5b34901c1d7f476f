"""Arguments in, calls out, text on the screen; no logic."""

from rollwright.cli.main import main

__all__ = ["main"]
