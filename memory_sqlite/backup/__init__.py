"""Backups: a consistent copy of a data directory with a manifest, its check, and putting it back."""
