"""Pure mathematics on tensors: credit, ratios, surrogates, denominators, regularizers. Imports nothing of ours."""
