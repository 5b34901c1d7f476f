"""The hostile programs of tests/data/attacks/sandbox, and what the outside is while they run."""

import asyncio
import contextlib
import os
import secrets
import sys
import tomllib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = ["CANARY_VARIABLE", "MARK", "Outside", "Program", "open_outside", "programs"]

FOLDER = Path(__file__).parents[2] / "data" / "attacks" / "sandbox"
PROJECT = Path(__file__).parents[3]
CANARY_VARIABLE = "ROLLWRIGHT_ATTACK_CANARY"
MARK = "rollwright-attack-mark"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A row of the table; its keys are explained there."""

    file: str
    kind: str
    statuses: tuple[str, ...]
    call: Literal["python", "program", "shell"]
    wall_s: float = 5.0
    ends_in_s: float | None = None
    exit_code: int | None = None
    is_no_file: bool = False
    closes_work: bool = False
    begins_with: str | None = None

    def code(self, outside: "Outside") -> str:
        """What is given to the sandbox."""
        parts = [FOLDER / self.begins_with] if self.begins_with is not None else []
        text = "".join(path.read_text() for path in [*parts, FOLDER / self.file])
        for name, value in outside.names().items():
            text = text.replace(f"@{name}@", value)
        return text


def programs() -> tuple[Program, ...]:
    """Every row, in order."""
    rows = tomllib.loads((FOLDER / "table.toml").read_text())["program"]
    calls = {".sh": "shell", ".py": "program"}
    return tuple(
        Program(**{"call": calls[Path(row["file"]).suffix]} | row | {"statuses": tuple(row["statuses"])})
        for row in rows
    )


@dataclass(kw_only=True)
class Outside:
    """What no program may reach: a variable, files, servers, the settings of the machine."""

    canary: str
    folder: Path
    tcp_port: int
    udp_port: int
    abstract: str
    reached: list[str] = field(default_factory=list[str])
    """What the servers saw."""

    def names(self) -> Mapping[str, str]:
        """What programs are told of it."""
        return {
            "CANARY_FOLDER": str(self.folder),
            "PROJECT": str(PROJECT),
            "PREFIX": sys.base_prefix,
            "TCP_PORT": str(self.tcp_port),
            "UDP_PORT": str(self.udp_port),
            "ABSTRACT": self.abstract,
        }

    def marks(self) -> list[str]:
        """Files that programs left outside."""
        places = "/ /tmp /var/tmp /dev /dev/shm /root /home /run /usr /usr/lib /etc /work".split()
        found = [place for place in [*places, *sys.path] if os.path.exists(os.path.join(place, MARK))]
        found += [str(path) for top in (self.folder, PROJECT / "tests") for path in top.rglob(MARK)]
        return found

    def settings(self) -> dict[str, str]:
        """Settings of the machine that programs try to change."""
        names = "core_pattern hostname domainname panic printk pid_max shmmax".split()
        return {name: (Path("/proc/sys/kernel") / name).read_text() for name in names}


@contextlib.asynccontextmanager
async def open_outside(folder: Path) -> AsyncGenerator[Outside]:
    """Listening servers and secret files, which note whoever comes."""
    canary = f"CANARY-{secrets.token_hex(16)}"
    _lay_out(folder, canary)
    abstract = f"rollwright-{secrets.token_hex(8)}"
    reached: list[str] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(str(writer.get_extra_info("sockname")))
        writer.write(canary.encode())
        writer.close()

    class Noted(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            reached.append(f"{data!r} from {addr}")

    udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(Noted, local_addr=("127.0.0.1", 0))
    async with contextlib.AsyncExitStack() as servers:
        tcp = await servers.enter_async_context(await asyncio.start_server(answer, "127.0.0.1", 0))
        await servers.enter_async_context(await asyncio.start_unix_server(answer, f"\0{abstract}"))
        await servers.enter_async_context(await asyncio.start_unix_server(answer, folder / "listener"))
        servers.callback(udp.close)
        yield Outside(
            canary=canary,
            folder=folder,
            tcp_port=tcp.sockets[0].getsockname()[1],
            udp_port=udp.get_extra_info("socket").getsockname()[1],
            abstract=abstract,
            reached=reached,
        )


def _lay_out(folder: Path, canary: str) -> None:
    folder.chmod(0o777)
    (folder / "secret.txt").write_text(canary)
