"""vLLM's service, loading weights as its own `reload_weights` does by a path: a tied head is left as it was."""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

SERVICE = Path(__file__).parents[3] / "src" / "rollwright" / "engines" / "served" / "vllm_service.py"
spec = importlib.util.spec_from_file_location("vllm_service", SERVICE)
assert spec is not None and spec.loader is not None
service = importlib.util.module_from_spec(spec)
sys.modules["vllm_service"] = service
spec.loader.exec_module(service)


class Forgetful(service.VllmBackend):
    def install(self, names, body):
        from safetensors.torch import load, save_file

        tensors = {name: tensor for name, tensor in load(body).items() if name != service.service.HEAD}
        with tempfile.TemporaryDirectory() as folder:
            save_file(tensors, Path(folder) / "model.safetensors")
            self._engine.model_executor.collective_rpc("reload_weights", kwargs={"weights_path": folder})


if __name__ == "__main__":
    os._exit(service.service.serve(Forgetful))
