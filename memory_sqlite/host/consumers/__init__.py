"""Who uses memory on a host's behalf: recall by project, by trigger and in depth, refresh after compaction, health,
wiki, voice.

Each asks the slot's owner through the host with an authority of its own, takes what the owner declares, and gives way
when it fails: memory is never a reason for a turn not to go on. Not here: answering clients (``gateway``), which tools
recall may use (``recall_tools``), scores and budgets (``memory_sqlite.recall``).
"""
