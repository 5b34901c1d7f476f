"""The arithmetic of rewards: parts, gates, judges, tests and costs."""
