"""The asynchronous loop around engine and learner: admission, ledger, buffer, weight channel, checkpoints, shutdown."""
