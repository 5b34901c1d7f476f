"""What every command imports sooner or later; imported once, before the processes of the tests are forked."""

import torch
import transformers.models.qwen3.modeling_qwen3

import rollwright.cli.main
import rollwright.engines.embedded
import rollwright.learner.causal_learner
import rollwright.recipes.runs

__all__ = ["rollwright", "transformers"]

torch.set_num_threads(1)
