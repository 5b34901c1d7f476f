"""Which tasks are attempted, how often, and at what temperature."""
