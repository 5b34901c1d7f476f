"""Reinforcement learning of language-model agents, with a receipt for every gradient."""
