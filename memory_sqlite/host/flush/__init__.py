"""The flush before compaction: a silent turn in which a memory provider saves what would be lost.

Lives here: when it is due, the gates, both arms, evidence, records (sections 1.3 and 3 of the contract). Not here: the
model, which a host gives; compaction itself; what our provider plans (``runtime.plans``), and its tools
(``runtime.tools``). A host calls ``run.run_flush`` and then compacts, whatever the outcome.
"""
