"""Each finished attempt and each finished group is taken once, whatever is delivered twice (M114)."""

__all__ = ["Deliveries"]


class Deliveries:
    """Knows what is waited for; all else was taken before, or is nobody's, and is refused and counted.

    It holds the names of what is in flight alone, so it does not grow with the run.
    """

    def __init__(self) -> None:
        self._expected: set[str] = set()
        self._refused = 0

    def expect(self, name: str) -> None:
        """Wait for a delivery of this name."""
        self._expected.add(name)

    def accept(self, name: str) -> bool:
        """True for the first delivery of what is waited for; any other is counted as refused."""
        if name in self._expected:
            self._expected.remove(name)
            return True
        self.refuse()
        return False

    def refuse(self) -> None:
        """Count a delivery that was not taken."""
        self._refused += 1

    def forget(self, name: str) -> None:
        """Wait for it no longer: what comes now is refused."""
        self._expected.discard(name)

    def take_refused(self) -> int:
        """How many were refused since the last call."""
        refused, self._refused = self._refused, 0
        return refused
