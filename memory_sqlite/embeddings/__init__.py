"""Embedding providers: what turns text into vectors, how one is chosen, and what keeps a bad one from doing harm."""
