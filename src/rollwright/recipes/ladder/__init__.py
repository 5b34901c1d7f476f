"""The ladder: levels of claims about training, each a list of arms that run one after another, and gates."""
