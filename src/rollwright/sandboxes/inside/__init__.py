"""What runs inside a sandbox: a fork server of the standard library alone, sent in as compiled code.

Nothing here may import from outside this folder: none of it is there. The order in which it is sent: `SOURCES`.
"""

__all__ = ["SOURCES"]

SOURCES = ("plain", "frames", "outputs", "processes", "filing", "running", "watching", "calls", "server")
"""Modules of this folder, each after those that it imports."""
