"""What a program inside must not be able to do, tried before any other program runs."""

from rollwright.sandboxes.sandbox import Sandboxes

__all__ = ["openings_of"]

WALLED = ""


async def openings_of(sandboxes: Sandboxes) -> tuple[str, ...]:
    """What is open that should not be, in words; empty where all holds."""
    async with sandboxes.take() as sandbox:
        result = await sandbox.program("print(1)")
    return () if result.stdout == "1\n" else (f"{result}",)
