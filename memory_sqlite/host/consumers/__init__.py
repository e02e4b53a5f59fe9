"""Who uses memory on a host's behalf: recall by project and by trigger, refresh after compaction, health, wiki, voice.

Each asks the slot's owner through the host with an authority of its own, takes what the owner declares, and gives way
when it fails: memory is never a reason for a turn not to go on. Not here: answering clients (``gateway``), the tools of
deep recall (``recall_tools``), scores and budgets (``memory_sqlite.recall``).
"""
