"""A batch becomes gradients and new weights; this room sees no environment and no engine.

Everything here needs torch, so the package exports nothing: import `rollwright.learner.causal_learner`.
"""
