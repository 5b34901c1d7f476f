"""What only a machine with an accelerator can tell, in one go of minutes; see `__main__.py`."""
