"""Automatic recall: what a host puts before a prompt; bounded, framed, on time, or nothing."""
