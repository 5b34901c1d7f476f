"""`engine`: whether an engine keeps the protocol that training rests on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from rollwright.cli.failures import FAILED
from rollwright.cli.machine import print_json
from rollwright.cli.options import Json

if TYPE_CHECKING:
    from rollwright.engines.conformance import Finding

__all__ = ["engine_check"]

_STYLES = {"passed": "green", "failed": "red", "skipped": "yellow"}


def engine_check(  # noqa: PLR0913 - each parameter is an option that a person may give
    name: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS|NAME",
            help="`embedded`, `vllm` or `scripted`, which are opened for it; or `http://HOST:PORT` of a server with "
            "OpenAI's completions.",
            show_default=False,
        ),
    ],
    *,
    model: Annotated[
        Path | None,
        typer.Option(
            help="A Hugging Face folder to serve and to judge by; else a small random model. An address needs it."
        ),
    ] = None,
    served_name: Annotated[
        str | None, typer.Option(help="What a server calls the model, where it has several.")
    ] = None,
    python: Annotated[
        Path,
        typer.Option(
            envvar="ROLLWRIGHT_VLLM_PYTHON", help="The interpreter of vLLM's environment; `make setup-vllm` makes it."
        ),
    ] = Path(".venv-vllm/bin/python"),
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Of the engine's numbers.")] = "float32",
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Of the engine.")] = "cpu",
    slots: Annotated[int, typer.Option(min=1, max=4096, help="Turns drawn at once.")] = 8,
    context: Annotated[int, typer.Option(min=48, max=1_000_000, help="Tokens of the longest context.")] = 128,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0.0, help="Nats that a log-probability may be off; by default 0.001, or 0.3 in bfloat16."),
    ] = None,
    limit_s: Annotated[float, typer.Option(min=0.5, max=3600.0, help="Seconds that one answer may take.")] = 60.0,
    json: Json = False,
) -> None:
    """Check that an engine keeps the protocol, item by item, against the learner's own scores.

    Log-probabilities of the sampled distribution, temperature, top_p, top_k and min_p, draws that follow it, stops,
    limits, deadlines, cancelling, many requests at once, new weights in mid-stream, weights that are broken, and a new
    beginning behind the end. The exit code is 0 where all hold, 1 where one does not.

    ```
    rollwright engine check embedded
    rollwright engine check vllm --python .venv-vllm/bin/python
    rollwright engine check http://127.0.0.1:8000 --model path/to/model
    ```
    """
    from rollwright.recipes.engine_checks import EngineCheckOrder, check_named_engine

    order = EngineCheckOrder(
        name=name,
        model=model,
        served_name=served_name,
        python=python,
        dtype=dtype,
        device=device,
        num_slots=slots,
        max_context_tokens=context,
        tolerance=tolerance,
        patience_s=limit_s,
    )
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    console = Console()

    def tell(finding: "Finding") -> None:
        counts[finding.status] += 1
        if json:
            print_json({"engine": name, "item": finding.item, "status": finding.status, "sentence": finding.sentence})
            return
        status = (f"{finding.status:8}", _STYLES[finding.status])
        console.print(Text.assemble(status, f"{finding.item:16}", finding.sentence), soft_wrap=True)

    check_named_engine(order, tell)
    if json:
        print_json({"engine": name, **counts})
    else:
        skipped = f", {counts['skipped']} not checked" if counts["skipped"] else ""
        console.print(Text(f"{name}: {counts['passed']} passed, {counts['failed']} failed{skipped}"), soft_wrap=True)
    if counts["failed"]:
        raise typer.Exit(FAILED)
