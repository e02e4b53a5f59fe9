"""Vector search over one generation: which rows may be found, which are nearest, and by which route."""
