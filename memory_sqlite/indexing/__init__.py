"""Keeping a generation equal to what it is derived from: the store's change log and the workspace's notes."""
