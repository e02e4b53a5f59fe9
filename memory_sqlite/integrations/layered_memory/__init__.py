"""The face of the layered-memory product over our store, for hosts that used it: manager, hooks, tool, command.

Facts: sections 5, 6, 8 and 11 of that product's behavioural reference; what is different on purpose is listed in
``docs/compatible-mode.md``. Begin at ``plugin``.
"""
