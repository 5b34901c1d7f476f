"""Judges: models that grade, behind a protocol in which what is graded cannot write its own grade."""
