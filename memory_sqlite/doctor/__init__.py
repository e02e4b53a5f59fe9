"""Findings: what is wrong with an agent's directory, and what to run. For people, and for tests after every fault."""

from memory_sqlite.doctor.verify import Finding, verify

__all__ = ["Finding", "verify"]
