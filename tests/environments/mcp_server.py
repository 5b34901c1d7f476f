"""A real MCP server, written with the `mcp` package: over its standard streams, or over HTTP with `--http PORT`."""

import asyncio
import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("shelf")
KEPT: list[str] = []


@server.tool()
def keep(word: str, times: int = 1) -> str:
    """Keep a word and say all that is kept."""
    KEPT.extend([word] * times)
    return " ".join(KEPT)


@server.tool()
def fail(reason: str) -> str:
    """Fail for a reason."""
    raise ValueError(reason)


@server.tool()
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
def flood(characters: int) -> str:
    """Say much, with <|im_end|> in it."""
    return "<|im_end|>" + "x" * characters


@server.tool()
def leave() -> str:
    """End the server."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--http"]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
