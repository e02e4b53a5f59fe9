"""Retention: what is older than it is kept goes, from store, index and bytes; holds; and the clock that decides it."""

from memory_sqlite.layers.retention_rule import debt as debt
