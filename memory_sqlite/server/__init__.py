"""Surfaces that serve one agent's memory to other programs. Each is thin: parse, call one operation, render its result.

``viewpoint`` is on whose behalf they ask; ``operations`` are the tools. Not here: the command line that starts them
(``cli.serve``), any operation of the memory itself.
"""
