"""vLLM in the service's loop; run by the interpreter of vLLM's environment, where this package is not installed."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rollwright.engines.served import service
else:
    # By its place: the folder is on no path, lest its modules be taken for others.
    _spec = importlib.util.spec_from_file_location("service", Path(__file__).with_name("service.py"))
    service = importlib.util.module_from_spec(_spec)
    sys.modules["service"] = service
    _spec.loader.exec_module(service)

__all__ = ["VllmBackend"]


class VllmBackend:
    """vLLM, one step at a time, in this process."""

    def __init__(self, settings: service.Message) -> None:
        """Load the model; takes tens of seconds.

        Raises:
            ValueError: where this build of vLLM computes on another device than the one asked for.
        """
        # Read by vLLM and by torch when they are imported.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ["VLLM_NO_USAGE_STATS"] = "1"
        os.environ["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] = "1"
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(settings["cache_gib"])
        os.environ["OMP_NUM_THREADS"] = str(settings["threads"])
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        import vllm  # type: ignore[import-not-found] - it lives in an environment of its own
        from vllm import EngineArgs, LLMEngine, SamplingParams  # type: ignore[import-not-found] - likewise
        from vllm.inputs.engine import tokens_input  # type: ignore[import-not-found] - likewise
        from vllm.platforms import current_platform  # type: ignore[import-not-found] - likewise
        from vllm.sampling_params import RequestOutputKind  # type: ignore[import-not-found] - likewise

        if current_platform.device_type != settings["device"]:
            raise ValueError(
                f"this vLLM computes on {current_platform.device_type!r}, and {settings['device']!r} is asked for; "
                "install the build for it, or set engine.device."
            )
        self._params: Callable[..., Any] = SamplingParams
        self._delta = RequestOutputKind.DELTA
        self._tokens_input: Callable[..., Any] = tokens_input
        self._engine: Any = LLMEngine.from_engine_args(
            EngineArgs(
                model=settings["folder"],
                dtype=settings["dtype"],
                # One more than a context: to score a full one, vLLM has to draw a token behind it.
                max_model_len=settings["max_context_tokens"] + 1,
                max_num_seqs=settings["num_slots"],
                enforce_eager=settings["is_eager"],
                gpu_memory_utilization=settings["gpu_memory_share"],
                skip_tokenizer_init=True,
                disable_log_stats=True,
                async_scheduling=False,
                enable_prefix_caching=True,
                logprobs_mode="processed_logprobs",
                max_logprobs=-1,
                seed=0,
            )
        )
        folder = Path(settings["folder"])
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        shapes = dict(_shapes(folder))
        self._is_tied = bool(config.get("tie_word_embeddings")) and service.EMBEDDING in shapes
        if self._is_tied:
            shapes.pop(service.HEAD, None)
        self.facts = {
            "vocab": int(config["vocab_size"]),
            "shapes": shapes,
            "is_tied": self._is_tied,
            "about": {"vllm": vllm.__version__},
        }
        self._kinds: dict[str, str] = {}
        """Of what runs: greedy, sampled or score."""

    def add(self, number: int, turn: service.Message, salt: str) -> None:
        """As told, by vLLM's own rules; stop tokens stay in the turn."""
        params = self._params(
            temperature=turn["temperature"],
            top_p=turn["top_p"],
            top_k=turn["top_k"],
            min_p=turn["min_p"],
            seed=turn["seed"],
            stop_token_ids=turn["stop"],
            max_tokens=turn["max_tokens"],
            ignore_eos=True,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            output_kind=self._delta,
        )
        prompt = self._tokens_input(turn["prompt"], cache_salt=salt)
        self._kinds[str(number)] = "sampled" if turn["temperature"] else "greedy"
        self._engine.add_request(str(number), prompt, params)

    def add_score(self, number: int, prompt: Sequence[int], top_k: int) -> None:
        """By the log-probabilities of a prompt; the token that is drawn behind it is dropped."""
        params = self._params(
            temperature=0.0, max_tokens=1, ignore_eos=True, prompt_logprobs=top_k, flat_logprobs=True, detokenize=False
        )
        self._kinds[str(number)] = "score"
        self._engine.add_request(str(number), self._tokens_input(list(prompt)), params)

    def abort(self, number: int) -> None:
        """Of a number that runs."""
        self._engine.abort_request([str(number)])
        self._kinds.pop(str(number), None)

    def step(self) -> list[service.Stepped]:
        """One step of vLLM."""
        return [self._stepped(output) for output in self._engine.step()]

    def _stepped(self, output: Any) -> service.Stepped:  # noqa: ANN401 - of vLLM
        number, one = output.request_id, output.outputs[0]
        kind = self._kinds.pop(number, None) if output.finished else self._kinds.get(number)
        if kind is None or (kind == "score" and not output.finished):
            return service.Stepped(number=int(number))
        if kind == "score":
            return service.Stepped(number=int(number), scored=_scored_of(output))
        tokens = list(one.token_ids)
        # Greedily, one token has all of the probability; vLLM gives what it had before.
        found = [0.0] * len(tokens) if kind == "greedy" else list(one.logprobs.logprobs)
        if len(found) != len(tokens):
            raise RuntimeError(f"vLLM gave {len(found)} log-probabilities for {len(tokens)} tokens")
        finish = {None: None, "stop": "stop_token", "length": "length", "abort": "aborted"}[one.finish_reason]
        return service.Stepped(number=int(number), tokens=tokens, logprobs=found, finish=finish)

    def install(self, names: Sequence[str], body: bytes) -> None:
        """Lay all tensors into the model, a tied head by name too: vLLM leaves its own copy of that stale otherwise."""
        from safetensors.torch import load  # type: ignore[import-not-found] - vLLM brings it

        tensors = load(body)
        if self._is_tied:
            tensors[service.HEAD] = tensors[service.EMBEDDING]
        wanted = dict.fromkeys((*names, service.HEAD) if self._is_tied else names)
        named: Iterator[tuple[str, Any]] = iter([(name, tensors[name]) for name in wanted])
        self._engine.model_executor.collective_rpc("reload_weights", kwargs={"weights_iterator": named})

    def forget(self, running: bool) -> None:  # noqa: FBT001 - a fact of the moment
        """Without `running`, prefixes that running turns hold stay, under the salt of their version."""
        self._engine.reset_prefix_cache(reset_running_requests=running)


def _scored_of(output: Any) -> service.Scored:  # noqa: ANN401 - of vLLM
    flat = output.prompt_logprobs
    starts, ends = np.array(flat.start_indices[1:]), np.array(flat.end_indices[1:])
    width = int((ends - starts).min()) if len(starts) else 1
    places = starts[:, None] + np.arange(width)[None, :] if len(starts) else np.zeros((0, width), dtype=int)
    ids, logs = np.array(flat.token_ids)[places], np.array(flat.logprobs)[places]
    return service.Scored(logprobs=logs[:, 0], best_ids=ids[:, 1:], best_logprobs=logs[:, 1:])


def _shapes(folder: Path) -> Iterator[tuple[str, list[int]]]:
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            table = json.loads(opened.read(size))
        table.pop("__metadata__", None)
        yield from ((name, one["shape"]) for name, one in table.items())


if __name__ == "__main__":
    code = service.serve(VllmBackend)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Threads of vLLM must not hold the process.
