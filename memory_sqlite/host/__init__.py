"""What a host owes a memory provider and a context engine, for hosts written in Python to adopt whole.

Lives here: exclusive slots, binding of callers, audiences and their lineage, the legacy adapter, the flush before
compaction, consumers of recall, gateway methods as plain functions, the turn outbox, reload. Not here: a wire
(surfaces), a model, our own provider (``runtime``) and engine (``context``): a host works with anybody's.
"""
