"""Worker processes: the pool of the parent, and the words both sides speak. Workers themselves are ``workers/``."""
