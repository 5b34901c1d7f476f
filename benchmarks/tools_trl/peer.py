"""TRL's side: its own GRPO trainer with its own tool loop. Runs in TRL's interpreter; imports nothing of rollwright.

    python -m benchmarks.tools_trl.peer pace MODEL         a worker: seconds of steps
    python -m benchmarks.tools_trl.peer train JOB.json     one run, with weights written on the way
    python -m benchmarks.tools_trl.peer look MODEL         episodes of a few steps, as JSON lines

What a person who wants it fast would set is set: no gradient checkpointing, no saving, no reports, one batch, no
reference model. A generation is limited to the tokens of a turn, so that no row goes on to the end of the episode.
"""

# pyright: reportMissingImports=false
# The interpreter of TRL's environment has them.

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl.chat_template_utils import qwen3_template

from benchmarks.tools_trl.arithmetic import calculator
from benchmarks.tools_trl.job import Job, pace_job, read_tasks
from benchmarks.tools_trl.plan import PLAN
from benchmarks.tools_trl.workers import Span, Stamps, own_output, serve_spans

EPISODES, OPTIMIZER = PLAN["episodes"], PLAN["optimizer"]


class Outcome:
    """The reward function, which also counts what it is shown and keeps the episodes."""

    __name__ = "outcome"

    def __init__(self, end_id: int) -> None:
        self._end_id = end_id
        self.last: dict[str, float] = {}
        self.seen: list[dict[str, Any]] = []

    def __call__(self, prompts: Any, completions: Any, completion_ids: Any, answer: Any, **_: object) -> list[float]:
        rewards = [
            float(ids[-1] == self._end_id and said(messages[-1]) == due)
            for messages, ids, due in zip(completions, completion_ids, answer, strict=True)
        ]
        calls = [sum(len(m.get("tool_calls") or ()) for m in messages) for messages in completions]
        self.last = {
            "episodes": len(rewards),
            "successes": sum(rewards),
            "calls": sum(calls),
            "turns": sum(sum(m["role"] == "assistant" for m in messages) for messages in completions),
            "tokens": sum(len(ids) for ids in completion_ids),
        }
        self.seen += [
            {"prompt": p[:1], "question": p[0]["content"], "ids": ids, "reward": r}
            for p, ids, r in zip(prompts, completion_ids, rewards, strict=True)
        ]
        return rewards


def said(message: dict[str, Any]) -> str | None:
    """The answer in the last line of a turn that begins with the marker; None where a turn still calls."""
    if message["role"] != "assistant" or message.get("tool_calls"):
        return None
    lines = (line.strip() for line in (message.get("content") or "").split("\n"))
    answers = [line[len("answer:") :].strip() for line in lines if line[: len("answer:")].casefold() == "answer:"]
    return " ".join(answers[-1].split()) if answers and answers[-1] else None


class Watch(TrainerCallback):
    """Stamps steps, and writes weights where the job asks for them; their seconds count."""

    def __init__(self, job: Job, stamps: Stamps, outcome: Outcome) -> None:
        self._job, self._stamps, self._outcome = job, stamps, outcome

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
        self._stamps.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: object) -> None:
        if self._job.save_every and state.global_step % self._job.save_every == 0:
            model.save_pretrained(Path(self._job.out) / f"step-{state.global_step:06d}")
        self._stamps.mark(self._outcome.last)


def train(job: Job, scratch: str) -> tuple[Stamps, Outcome]:
    """One run over the job's tasks in their order."""
    tokenizer = AutoTokenizer.from_pretrained(job.model)
    # Our template is ChatML with Hermes calls, as Qwen3's: TRL reads them by the parser that it has for Qwen3.
    tokenizer.response_template = qwen3_template
    config = trl.GRPOConfig(
        output_dir=scratch,
        use_cpu=True,
        bf16=False,
        fp16=False,
        model_init_kwargs={"dtype": "float32"},
        per_device_train_batch_size=EPISODES["batch_size"],
        gradient_accumulation_steps=1,
        num_generations=EPISODES["group_size"],
        num_iterations=1,
        max_completion_length=EPISODES["max_completion_tokens"],
        generation_kwargs={"max_new_tokens": EPISODES["max_turn_tokens"]},
        max_tool_calling_iterations=EPISODES["max_turns"] - 1,
        temperature=EPISODES["temperature"],
        top_p=1.0,
        top_k=0,
        beta=0.0,
        epsilon=OPTIMIZER["clip"],
        epsilon_high=OPTIMIZER["clip"],
        loss_type="dapo",
        scale_rewards="none",
        shuffle_dataset=False,
        learning_rate=job.learning_rate,
        lr_scheduler_type="constant",
        adam_beta1=OPTIMIZER["beta1"],
        adam_beta2=OPTIMIZER["beta2"],
        adam_epsilon=OPTIMIZER["epsilon"],
        weight_decay=0.0,
        max_grad_norm=OPTIMIZER["max_grad_norm"],
        max_steps=job.steps,
        gradient_checkpointing=False,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=job.seed,
    )
    tasks = read_tasks(job)
    rows = [{"prompt": [{"role": "user", "content": task["question"]}], "answer": task["answer"]} for task in tasks]
    outcome, stamps = Outcome(tokenizer.eos_token_id), Stamps()
    trainer = trl.GRPOTrainer(
        model=job.model,
        processing_class=tokenizer,
        args=config,
        reward_funcs=outcome,
        train_dataset=Dataset.from_list(rows),
        tools=[calculator],
    )
    trainer.add_callback(Watch(job, stamps, outcome))
    trainer.train()
    return stamps, outcome


def pace(model: str, number: int) -> Span:
    job = pace_job(model, number)
    with tempfile.TemporaryDirectory(prefix="trl-bench-") as scratch:
        return train(job, scratch)[0].span(PLAN["steps"]["counted"])


def about() -> dict[str, object]:
    return {
        "trl": trl.__version__,
        "transformers": transformers.__version__,
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["pace", model]:
            serve_spans(partial(pace, model), about())
        case ["train", file]:
            job = Job.read(file)
            with tempfile.TemporaryDirectory(prefix="trl-bench-") as scratch:
                stamps, _ = train(job, scratch)
            job.write_result(stamps, about())
        case ["look", model]:
            out, job = own_output(), pace_job(model, 0).looking()
            tokenizer = AutoTokenizer.from_pretrained(job.model)
            with tempfile.TemporaryDirectory(prefix="trl-bench-") as scratch:
                for row in train(job, scratch)[1].seen:
                    ids = tokenizer.apply_chat_template(
                        row.pop("prompt"), tools=[calculator], add_generation_prompt=True, return_dict=False
                    )
                    print(json.dumps(row | {"prompt_ids": ids}), file=out, flush=True)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
