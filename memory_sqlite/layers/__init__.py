"""Layers L1 to L3: how a turn becomes an episode, facts and a scenario. Pure functions; storing them is not here."""
