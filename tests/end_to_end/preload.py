"""What every command imports sooner or later; imported once, before the processes of the tests are forked."""

from importlib import import_module

for name in (
    "rollwright.cli.main",
    "rollwright.recipes.runs",
    "rollwright.learner.causal_learner",
    "rollwright.engines.embedded",
    "transformers.models.qwen3.modeling_qwen3",
):
    import_module(name)
