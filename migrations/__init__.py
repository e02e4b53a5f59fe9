"""Numbered SQL of the store's schema; ``schema.sql`` is the file to read, tested equal to applying all of them."""
