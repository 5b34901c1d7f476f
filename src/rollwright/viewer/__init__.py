"""Pages and reports of a finished or live run, from its folder alone.

It refuses to know how a run is made: it reads through `evidence`, and works where torch is not installed.
"""
