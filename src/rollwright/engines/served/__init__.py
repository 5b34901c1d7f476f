"""Engines that run as services of their own: a process, a socket in a private folder, a key, lines of JSON.

    ServedEngine ──link──► service.py around vllm_service.py, run by the interpreter of vLLM's environment

These two import nothing of this package; all else here imports neither vLLM nor torch.
"""

from rollwright.engines.served.engine import FileOf, ServedEngine, file_of_location
from rollwright.engines.served.opening import VllmSettings, open_vllm

__all__ = ["FileOf", "ServedEngine", "VllmSettings", "file_of_location", "open_vllm"]
