"""Forgetting: what is chosen, deleted from store, generations, notes and bytes, and proved to be gone."""
