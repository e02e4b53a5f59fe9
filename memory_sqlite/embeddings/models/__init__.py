"""Models that run here: tokenizers, weights and forward passes. Loaded by the embedding worker alone; NumPy only."""
