"""Backups: made while others write, proved, put back. Not here: exports as JSONL (``interop``), keys (``crypto``)."""
