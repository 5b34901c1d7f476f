"""How fast answers are verified: mathematics, short answers, and programs in sandboxes.

    OMP_NUM_THREADS=1 python benchmarks/verifiers.py --answers 1000 --programs 100

The mix of mathematics is that of a competition set: of a hundred answers seventy are numbers (integers, decimals,
fractions), thirty are expressions, sets, intervals and roots; half of them all are right.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Mapping, Sequence

from rollwright.recipes.build.named_verifiers import named_verifier
from rollwright.record import Message, Passage, Submission, Verdict, Verifier
from rollwright.tasks import Json, Payload, make_task

_EXPRESSIONS = (
    ("\\frac{{{a}\\sqrt{{{b}}}}}{{2}}", "\\frac{{{a}}}{{2}}\\sqrt{{{b}}}"),
    ("x^2+{a}x+{b}", "{b}+{a}x+x^2"),
    ("\\{{{a},{b}\\}}", "\\{{{b},{a}\\}}"),
    ("({a},{b})", "({a}, {b})"),
    ("[{a},\\infty)", "[{a}, \\infty)"),
    ("{a}\\pi", "{a} \\pi"),
    ("\\sqrt{{{a}}}", "\\sqrt{{{a}}}"),
    ("2^{{{a}}}\\cdot x", "x \\cdot 2^{{{a}}}"),
)


def submission(text: str, gold: str, place: int, info: Mapping[str, Json] | None = None) -> Submission:
    """A finished episode that ends with `text`."""
    payload = Payload(messages=(Message(role="user", text=f"question {place}"),), answer=gold, info=info or {})
    return Submission(
        trajectory_id=f"t{place:06d}-00-0",
        task=make_task(payload, source="benchmark", revision="1", split="train"),
        terminal_reason="model_end",
        passages=(Passage(actor="agent", kind="policy", text=text),),
        artifacts={},
    )


def mathematics(count: int, seed: int) -> list[Submission]:
    """Gold answers and completions in the mix above."""
    draws = random.Random(seed)
    found: list[Submission] = []
    for place in range(count):
        a, b, kind = draws.randint(2, 999), draws.randint(2, 99), draws.random()
        if kind < 0.45:
            gold, answer = str(a), f"{a}"
        elif kind < 0.55:
            gold, answer = f"{a / 8}", f"\\frac{{{a}}}{{8}}"
        elif kind < 0.7:
            gold, answer = f"\\frac{{{a}}}{{{b}}}", f"\\frac{{{2 * a}}}{{{2 * b}}}"
        else:
            one, other = draws.choice(_EXPRESSIONS)
            gold, answer = one.format(a=a, b=b), other.format(a=a, b=b)
            if place % 2:
                answer = other.format(a=a + 1, b=b)
        if kind < 0.7 and place % 2:
            answer = str(a + 1)
        found.append(submission(f"So we get \\boxed{{{answer}}}.", gold, place))
    return found


async def timed(verifier: Verifier, submissions: Sequence[Submission]) -> tuple[float, list[Verdict]]:
    """Seconds for all, asked for as a run does: each alone, many at once."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_one(verifier, each)) for each in submissions]
    return time.perf_counter() - started, [task.result() for task in tasks]


async def _one(verifier: Verifier, each: Submission) -> Verdict:
    return (await verifier.verify([each]))[0]


def report(name: str, submissions: Sequence[Submission]) -> None:
    """Make, warm and time one verifier."""
    made = named_verifier(name)
    try:
        asyncio.run(timed(made.verifier, submissions[:2]))
        seconds, verdicts = asyncio.run(timed(made.verifier, submissions))
        outcomes = [verdict.outcome for verdict in verdicts]
        right, errors = outcomes.count(1.0), sum(isinstance(outcome, str) for outcome in outcomes)
        each_ms = 1000 * seconds / len(submissions)
        print(f"{name:12} {len(submissions):6} answers in {seconds:7.3f} s, {each_ms:8.3f} ms each")
        print(f"{'':12} {right:6} right, {errors} errors")
    finally:
        made.close()


def main() -> None:
    """Time what the options say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    mixed = mathematics(options.answers, options.seed)
    report("math", mixed)
    report("math", [each for each in mixed if not _is_number(each)])
    report("numeric", [submission(f"answer: {n}", str(n), n) for n in range(options.answers)])
    report("units", [submission(f"answer: {n} cm", f"{10 * n} mm", n) for n in range(options.answers)])
    tests = {"tests": [{"args": [n, 1], "expected": n + 1} for n in range(5)]}
    programs = [submission("def add(a, b):\n    return a + b\n", "tests", n, tests) for n in range(options.programs)]
    report("unit_tests", programs)


def _is_number(each: Submission) -> bool:
    gold = each.task.payload.split('"answer":"')[1].split('"')[0]
    return gold.replace(".", "").isdigit() or gold.startswith("\\\\frac{") and "sqrt" not in gold


if __name__ == "__main__":
    main()
