"""How well searches find what they should: labelled queries, the measures, and what counts as a loss."""
