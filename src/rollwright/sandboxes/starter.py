"""The starter: a small process of its own that starts sandboxes, takes in those that end, and takes all with it.

It runs as a script of the standard library alone, in a clean environment, with one thread. A sandbox dies with the
process that started it, and the kernel counts a thread as that: a starter with one thread lives as long as the pool.
When the pool closes its end of the socket, or its process is no more, the starter ends, and every sandbox with it.
What a sandbox leaves behind falls to the starter, which ends it.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time

__all__ = ["main"]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
STAGES = ("/mnt", "/media", "/srv")
MAX_MESSAGE = 2**18
STUBBORN_S = 1.0
CHANNEL = 3
Message = dict[str, object]


class Settings:
    """How every sandbox of the pool is started."""

    def __init__(self, message: Message) -> None:
        self.arguments = _strings(message["arguments"])
        self.after = _strings(message["after"])
        self.executable = os.open(str(message["executable"]), os.O_PATH)
        libraries = str(message["libraries"])
        self.variables = {name: value for name, value in map(_strings, _items(message["variables"]))}
        if libraries:
            self.variables["LD_LIBRARY_PATH"] = f"/proc/self/fd/{_opened(libraries)}"
        self.binds = _staged([(source, target) for source, target in map(_strings, _items(message["binds"]))])
        self.filter = bytes.fromhex(str(message["filter"]))
        self.first_user = int(str(message["first_user"]))
        self.is_walled = message["isolation"] == "namespaces"

    def command(self) -> list[str]:
        """What to execute, with a filter that is read once."""
        if not self.is_walled:
            return self.arguments
        source, sink = os.pipe()
        os.write(sink, self.filter)
        os.close(sink)
        _pass_on(source)
        binds = [word for source, target in self.binds for word in ("--ro-bind", source, target)]
        return [*self.arguments, *binds, "--seccomp", str(source), *self.after]


class Started:
    """A sandbox that runs."""

    def __init__(self, pid: int, slot: int, gone: int) -> None:
        self.pid = pid
        self.slot = slot
        self.gone = gone
        self.pidfd = os.pidfd_open(pid)
        self.stubborn_at = float("inf")


class Starter:
    """Takes orders until there is nobody to give them."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._running: dict[int, Started] = {}
        self._settings: Settings | None = None
        self._poll = select.poll()
        self._pidfds: dict[int, int] = {}
        self._prctl = ctypes.CDLL(None).prctl

    def run(self) -> None:
        """Serve; all that was started is ended on return."""
        self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        parent = os.pidfd_open(os.getppid())
        self._poll.register(self._orders, select.POLLIN)
        self._poll.register(parent, select.POLLIN)
        while True:
            for descriptor, _ in self._poll.poll(200 if self._has_stubborn() else None):
                if descriptor == parent or (descriptor == self._orders.fileno() and not self._take_order()):
                    self._end_all()
                    return
                if descriptor in self._pidfds:
                    self._take_in(self._pidfds[descriptor])
            self._kill_stubborn()

    def _take_order(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._orders, MAX_MESSAGE, 4)
        for descriptor in descriptors:
            fcntl.fcntl(descriptor, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        if not data:
            return False
        message = json.loads(data)
        match message["order"]:
            case "settings":
                self._settings = Settings(message)
            case "start":
                self._start(int(message["sandbox"]), int(message["slot"]), str(message["folder"]), descriptors)
            case "end":
                self._end(int(message["sandbox"]))
            case other:
                raise ValueError(f"no such order: {other}")
        return True

    def _start(self, sandbox: int, slot: int, folder: str, descriptors: list[int]) -> None:
        assert self._settings is not None
        channel, gone = descriptors
        pid = os.fork()
        if pid == 0:
            try:
                self._become(self._settings, slot, folder, (channel, gone))
            except BaseException as error:  # noqa: BLE001 - told to who asked; this process must not go on as the starter
                os.write(gone, f"the sandbox was not executed: {error}\n".encode())
            os._exit(127)
        os.close(channel)
        started = self._running[sandbox] = Started(pid, slot, gone)
        self._pidfds[started.pidfd] = sandbox
        self._poll.register(started.pidfd, select.POLLIN)

    def _become(self, settings: Settings, slot: int, folder: str, descriptors: tuple[int, int]) -> None:
        channel, gone = descriptors
        starter = os.getppid()
        os.dup2(gone, 2)
        os.dup2(channel, CHANNEL)
        _pass_on(CHANNEL)
        if not settings.is_walled:
            self._prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            os.chdir(folder)
            self._keep(starter)
        command = settings.command()
        user = settings.first_user + slot
        if os.geteuid() == 0 and settings.first_user:
            if folder:
                os.chown(folder, user, user)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        # After the change of user, which takes it away.
        self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if settings.is_walled and os.getppid() != starter:
            return
        os.execve(settings.executable, command, settings.variables)

    def _keep(self, starter: int) -> None:
        """Return in a child, and stay behind to end all that it leaves: no namespace ends with its first process."""
        self._prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        awaited = {signal.SIGCHLD, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        server = os.fork()
        if server == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
            os.setsid()
            return
        os.closerange(CHANNEL, 65_536)
        while os.getppid() == starter and signal.sigwait(awaited) == signal.SIGCHLD:
            if os.waitpid(server, os.WNOHANG)[0]:
                break
        end_children()
        os._exit(0)

    def _end(self, sandbox: int) -> None:
        started = self._running.get(sandbox)
        if started:
            self._kill(started)
            started.stubborn_at = time.monotonic() + STUBBORN_S

    def _kill(self, started: Started) -> None:
        """Kill process 1 of the sandbox: bubblewrap, which waits for it, ends when nothing of it is left."""
        if self._settings and not self._settings.is_walled:
            _signal(started.pid, signal.SIGTERM)
            return
        for pid in children_of(started.pid) or [started.pid]:
            _signal(pid, signal.SIGKILL)

    def _has_stubborn(self) -> bool:
        return any(started.stubborn_at < float("inf") for started in self._running.values())

    def _kill_stubborn(self) -> None:
        for started in self._running.values():
            if started.stubborn_at < time.monotonic():
                _signal(started.pid, signal.SIGKILL)

    def _take_in(self, sandbox: int) -> None:
        started = self._running.pop(sandbox)
        self._poll.unregister(started.pidfd)
        del self._pidfds[started.pidfd]
        os.waitpid(started.pid, 0)
        self._end_orphans()
        os.close(started.pidfd)
        os.close(started.gone)

    def _end_orphans(self) -> None:
        """End what a sandbox left behind: killed while it starts, it has not yet bound its child's life to its own."""
        known = {started.pid for started in self._running.values()}
        while orphans := set(children_of(os.getpid())) - known:
            for pid in orphans:
                _signal(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _end_all(self) -> None:
        for started in self._running.values():
            self._kill(started)
        deadline = time.monotonic() + 2 * STUBBORN_S
        while self._running and time.monotonic() < deadline:
            for descriptor, _ in self._poll.poll(100):
                if descriptor in self._pidfds:
                    self._take_in(self._pidfds[descriptor])
            if time.monotonic() > deadline - STUBBORN_S:
                for started in self._running.values():
                    _signal(started.pid, signal.SIGKILL)


def children_of(parent: int) -> list[int]:
    """Processes that this one started and that still are its own."""
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return list(map(int, file.read().split()))
    except OSError:
        pass
    found: list[int] = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if name.isdigit():
                with open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == parent:
                        found.append(int(name))
    return found


def end_children() -> None:
    """Kill and take in all descendants of this process, to which orphans among them fall."""
    deadline = time.monotonic() + 5 * STUBBORN_S
    while time.monotonic() < deadline:
        for pid in children_of(os.getpid()):
            _signal(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _staged(binds: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The binds from where an ordinary user may come: a root's own folders are closed to it.

    Root shows them at another place, in a mount namespace that only the starter and its sandboxes see. Elsewhere, and
    for a root who may not mount, they stay as they are.
    """
    stage = next((path for path in STAGES if os.path.isdir(path)), None)
    kernel = ctypes.CDLL(None)
    if os.geteuid() != 0 or stage is None or kernel.unshare(CLONE_NEWNS):
        return binds
    if kernel.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        return binds
    kept = [(os.open(source, os.O_PATH), os.path.isdir(source)) for source, _ in binds]
    if kernel.mount(b"none", stage.encode(), b"tmpfs", 0, b"size=256k,mode=755"):
        return binds
    staged: list[tuple[str, str]] = []
    for number, ((opened, is_folder), (_, target)) in enumerate(zip(kept, binds, strict=True)):
        place = f"{stage}/{number}"
        if is_folder:
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        if kernel.mount(f"/proc/self/fd/{opened}".encode(), place.encode(), None, MS_BIND, None):
            raise OSError(f"{target} cannot be shown to the sandboxes")
        os.close(opened)
        staged.append((place, target))
    return staged


def _opened(path: str) -> int:
    """A descriptor that what is executed keeps."""
    descriptor = os.open(path, os.O_PATH)
    _pass_on(descriptor)
    return descriptor


def _pass_on(descriptor: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)


def _items(value: object) -> list[object]:
    assert isinstance(value, list)
    return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - read JSON


def _strings(value: object) -> list[str]:
    return list(map(str, _items(value)))


def main() -> None:
    """Serve the socket whose descriptor is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        Starter(orders).run()


if __name__ == "__main__":
    main()
