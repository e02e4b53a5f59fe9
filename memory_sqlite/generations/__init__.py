"""Generations: the builds of the derived search index, their rows in the store, their files and their identity."""
