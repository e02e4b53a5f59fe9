"""SQL over the store and over JSONL files: read-only, bounded, interruptible."""
