"""L0: sessions, turns and messages in the store. What was said is written here and nowhere else."""
