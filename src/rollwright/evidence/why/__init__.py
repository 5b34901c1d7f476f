"""Why did this step do what it did? From a step back to tokens, verdicts and versions; from a task forward.

step ──► episodes, tokens ──► updates: weight, ratio, flags ──► credit ──► reward ──► what the verifiers saw
task ──► slots, attempts ──► verdicts ──► steps, influence
"""

from rollwright.evidence.why.answers import Answer, Fact
from rollwright.evidence.why.asking import Asked, TokenPlace
from rollwright.evidence.why.steps import step_answer, trajectory_answer
from rollwright.evidence.why.tasks import task_answer
from rollwright.evidence.why.tokens import token_answer

__all__ = ["Answer", "Asked", "Fact", "TokenPlace", "step_answer", "task_answer", "token_answer", "trajectory_answer"]
