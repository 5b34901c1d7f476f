"""The local web page over run folders: it only reads, fetches nothing from elsewhere, and shows a run while it goes on.

It refuses to know how a run is made, and trusts nothing that a model, a tool or a person wrote into one.
"""
