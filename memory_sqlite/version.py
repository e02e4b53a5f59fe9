"""The version of this package for its own modules.

The root is not imported by name for it: a reader of imports would take the names it resolves lazily for dependencies.
"""

from __future__ import annotations

import sys
from typing import Final

VERSION: Final[str] = sys.modules["memory_sqlite"].__version__
