"""`view`: a local web page over run folders."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollwright.cli.machine import print_json
from rollwright.cli.options import Json

__all__ = ["view"]

_RUNS = Path("runs")


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders, or folders with runs below them; without: ./runs.", show_default=False),
    ] = None,
    *,
    host: Annotated[
        str, typer.Option(help="Listen here; beyond this machine a token is demanded of every visitor.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Listen at this port; 0 takes a free one.", min=0, max=65535)] = 8321,
    json: Json = False,
) -> None:
    """Look at runs in a browser, while they go on too.

    The page is served on this machine alone, only reads, and fetches nothing from anywhere.

    ```
    rollwright view
    rollwright view runs/arithmetic-tool runs/arithmetic-tool-2
    rollwright view --host 0.0.0.0 --port 8080
    ```
    """
    from rollwright.evidence import RunFolder
    from rollwright.viewer.page.server import Served, serve

    given = runs or [_RUNS]
    single = [path for path in given if (path / "manifest.json").exists()]
    roots = [path for path in given if path not in single]
    for path in roots:
        if runs and not path.is_dir():
            RunFolder.open(path)  # says that it is no run

    def begun(served: Served) -> None:
        if json:
            print_json({"address": served.address, "is_local": served.is_local})
            return
        console = Console()
        console.print(f"serving at {served.address}", highlight=False, soft_wrap=True)
        if not served.is_local:
            console.print(
                "whoever has this address can read these runs; it travels unencrypted, so let an SSH tunnel or a proxy "
                "carry it over networks that others share.",
                highlight=False,
            )
        console.print("Ctrl-C ends it.", highlight=False)

    serve(single, roots, host=host, port=port, begun=begun)
