"""The provider-neutral memory runtime: what a host and a memory provider say to each other, and our own provider.

Lives here: the shapes of the contract (``shapes``, ``callers``, ``plugins``, ``flush_plans``, ``signals``), our
provider over an agent's memory, its references and cursors, and the conformance kit for providers. Not here: what
a host owes a provider (``host``), the context engine (``context``). No other provider's storage is known here.
"""
