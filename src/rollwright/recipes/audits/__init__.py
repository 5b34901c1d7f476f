"""Audits of verifiers: on labeled cases, on the trajectories of a run, and by attacks."""
