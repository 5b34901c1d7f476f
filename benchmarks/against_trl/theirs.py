"""Steps of TRL's GRPOTrainer, one for each line that asks; run by the interpreter of TRL's own environment.

What a person who wants it fast would set is set: no gradient checkpointing, no saving, no reports, one batch, no
reference model, no second worker for data. The rest is TRL's default.
"""

import tempfile
import time
from typing import Any

import torch
import transformers
import trl  # type: ignore[import-not-found] - it lives in an environment of its own
from datasets import Dataset  # type: ignore[import-not-found] - likewise
from transformers import AutoTokenizer, TrainerCallback

from benchmarks.against_trl.job import BETAS, CLIP_HIGH, CLIP_LOW, Job, read_job
from benchmarks.paired import Pacer
from benchmarks.workloads import prompts, reward_of

MANY = 1_000_000


class Counter:
    """A reward function that counts what it is shown."""

    __name__ = "by_hash"

    def __init__(self, group_size: int) -> None:
        self._group_size = group_size
        self.last: dict[str, float] = {}
        self.lengths: list[int] = []

    def __call__(self, completions: list[Any], completion_ids: list[list[int]], **_: object) -> list[float]:
        texts = [one if isinstance(one, str) else one[0]["content"] for one in completions]
        rewards = [reward_of(text) for text in texts]
        groups = [rewards[at : at + self._group_size] for at in range(0, len(rewards), self._group_size)]
        lengths = [len(ids) for ids in completion_ids]
        self.lengths += lengths
        self.last = {
            "completions": len(lengths),
            "tokens": sum(lengths),
            "quiet_groups": sum(len(set(group)) == 1 for group in groups) / len(groups),
        }
        return rewards


class Waiting(TrainerCallback):
    """Holds the trainer after some steps, whose means it tells, until the next are asked for."""

    def __init__(self, pacer: Pacer, counter: Counter, steps: int) -> None:
        self._pacer, self._counter, self._steps = pacer, counter, steps
        self._began = (0.0, 0.0)
        self._told: list[dict[str, float]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
        if not self._pacer.begin():
            control.should_training_stop = True
        self._began = _now()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
        self._told.append(self._counter.last)
        if len(self._told) < self._steps:
            return
        wall, cpu = (now - began for now, began in zip(_now(), self._began, strict=True))
        means = {name: sum(one[name] for one in self._told) / self._steps for name in self._told[0]}
        self._told = []
        if not self._pacer.ended(means, (wall / self._steps, cpu / self._steps)):
            control.should_training_stop = True
        self._began = _now()


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def trainer_of(job: Job, counter: Counter, folder: str) -> Any:  # noqa: ANN401 - its package is not here
    work = job.workload
    config = trl.GRPOConfig(
        output_dir=folder,
        use_cpu=job.device == "cpu",
        bf16=job.dtype == "bfloat16",
        fp16=False,
        model_init_kwargs={"dtype": "float32"},
        per_device_train_batch_size=work.completions,
        gradient_accumulation_steps=1,
        num_generations=work.group_size,
        num_iterations=1,
        max_completion_length=work.max_tokens,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        beta=0.0,
        epsilon=CLIP_LOW,
        epsilon_high=CLIP_HIGH,
        loss_type="dapo",
        scale_rewards="group",
        learning_rate=work.learning_rate,
        lr_scheduler_type="constant",
        adam_beta1=BETAS[0],
        adam_beta2=BETAS[1],
        weight_decay=0.0,
        max_grad_norm=1.0,
        max_steps=MANY,
        gradient_checkpointing=False,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=work.seed,
    )
    rows = [{"prompt": [{"role": "user", "content": prompt}]} for prompt in prompts(work)]
    return trl.GRPOTrainer(
        model=str(job.model),
        processing_class=AutoTokenizer.from_pretrained(job.model),
        args=config,
        reward_funcs=counter,
        train_dataset=Dataset.from_list(rows),
    )


def main() -> None:
    job = read_job()
    torch.set_num_threads(job.threads)
    pacer = Pacer(
        {
            "trl": trl.__version__,
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "threads": job.threads,
            "device": job.device,
            "dtype": job.dtype,
        }
    )
    counter = Counter(job.workload.group_size)
    with tempfile.TemporaryDirectory(prefix="trl-bench-") as folder:
        trainer = trainer_of(job, counter, folder)
        trainer.add_callback(Waiting(pacer, counter, job.workload.counted))
        trainer.train()
    pacer.tell({"lengths": counter.lengths})


if __name__ == "__main__":
    main()
