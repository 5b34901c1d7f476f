"""Opens vLLM as a served engine. vLLM lives in an environment of its own: its interpreter is named, never imported."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rollwright.engines.errors import EngineError
from rollwright.engines.served.engine import FileOf, ServedEngine, ServedFacts, file_of_location
from rollwright.engines.served.link import Link
from rollwright.engines.served.process import start_service
from rollwright.engines.stops import DecodeText
from rollwright.record import Capabilities, Swap

__all__ = ["VllmSettings", "open_vllm"]

SERVICE = Path(__file__).with_name("vllm_service.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """How vLLM serves."""

    python: Path
    """The interpreter of the environment that vLLM is installed in."""
    policy: str = "policy"
    version: int = 0
    """Of the weights in the folder."""
    num_slots: int = 64
    """Turns drawn at once; more wait."""
    max_context_tokens: int = 1024
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    """What its build computes on."""
    threads: int = 1
    """On a CPU."""
    cache_gib: int = 1
    """GiB of keys and values on a CPU."""
    gpu_memory_share: float = 0.5
    """Of a GPU's memory, for weights, keys and values."""
    is_eager: bool = True
    """Without compilation and graphs: starts sooner, steps slower."""
    start_s: float = 300.0
    """How long it may take until it serves."""

    def __post_init__(self) -> None:
        """Refuse what cannot be kept."""
        if self.num_slots < 1 or self.max_context_tokens < 2 or self.threads < 1 or self.cache_gib < 1:
            raise EngineError(
                f"num_slots={self.num_slots}, max_context_tokens={self.max_context_tokens}, threads={self.threads}, "
                f"cache_gib={self.cache_gib}; needed: at least 1, 2, 1 and 1."
            )


def open_vllm(
    folder: Path,
    settings: VllmSettings,
    *,
    script: Path = SERVICE,
    file_of: FileOf = file_of_location,
    decode_text: DecodeText | None = None,
) -> ServedEngine:
    """Serve the model of a Hugging Face folder; blocks until the service is ready, tens of seconds.

    Args:
        folder: config.json and safetensors; a tokenizer is not needed.
        settings: how to serve it.
        script: of the service.
        file_of: where the file of a publication is.
        decode_text: token ids to text, for stop strings; without it they are refused.

    Raises:
        EngineLostError: with what the service wrote last, where it did not start.
    """
    told = {name: value for name, value in asdict(settings).items() if name not in ("python", "policy", "start_s")}
    process = start_service(settings.python, script, {**told, "folder": str(folder.absolute())})
    try:
        connection, hello = process.connect(settings.start_s)
    except BaseException:
        process.stop()
        raise
    facts = ServedFacts(
        policy=settings.policy,
        vocab=int(str(hello["vocab"])),
        capabilities=Capabilities(
            has_sampled_distribution=True,
            has_version_per_token=True,
            is_deterministic=False,
            swaps=frozenset[Swap](["drain", "continue", "recompute"]),
            tensors=frozenset(),
            max_context_tokens=settings.max_context_tokens,
            num_slots=settings.num_slots,
        ),
    )
    link = Link(connection)
    return ServedEngine(process, link, facts, version=settings.version, file_of=file_of, decode_text=decode_text)
