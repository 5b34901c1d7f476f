"""What a whole process has once: environment variables and answers to signals."""

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ProcessState", "process_state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """As it was at one time."""

    variables: Mapping[str, str]
    handlers: Mapping[signal.Signals, Any]

    def changed_variables(self) -> Sequence[str]:
        """Names of those that are set, unset or another now."""
        names = {*self.variables, *os.environ}
        return sorted(name for name in names if self.variables.get(name) != os.environ.get(name))

    def changed_signals(self) -> Sequence[str]:
        """Names of those that are answered in another way now."""
        return [number.name for number, handler in self.handlers.items() if signal.getsignal(number) != handler]

    def put_back(self) -> None:
        """Make it so again; what is no function of Python stays, and so do all signals outside of the main thread."""
        for name in self.changed_variables():
            if name in self.variables:
                os.environ[name] = self.variables[name]
            else:
                del os.environ[name]
        if threading.current_thread() is threading.main_thread():
            for name in self.changed_signals():
                if (handler := self.handlers[signal.Signals[name]]) is not None:
                    signal.signal(signal.Signals[name], handler)


def process_state() -> ProcessState:
    """As it is now."""
    handlers = {number: signal.getsignal(number) for number in signal.Signals}
    return ProcessState(variables=dict(os.environ), handlers=handlers)
