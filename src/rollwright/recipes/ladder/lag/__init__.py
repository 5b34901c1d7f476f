"""Level 5: arms that differ in the largest lag alone, each compared with the synchronous run."""
