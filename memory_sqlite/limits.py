"""Every bound of the house, in one place. A constant carries the reason or the measurement it rests on.

Bounds of settings that a user may change live in ``config.py`` beside the setting's type and default and refer to
these names; bounds that nobody may change are used directly.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- settings: (lowest, highest, default); names and ranges are those of the layered-memory product, section 12 of its
# reference, so that a host that migrates keeps its configuration -------------------------------------------------------
MAX_SEARCH_RESULTS: Final = (1, 100, 10)
MAX_SEARCH_BYTES: Final = (1 * MIB, 256 * MIB, 16 * MIB)
MAX_READ_LINES: Final = (1, 2_000, 200)
RETENTION_DAYS: Final = (1, 3_650, 90)
EXTRACTION_INTERVAL: Final = (1, 100, 5)
MAX_RECORD_BYTES: Final = (1 * KIB, 1 * MIB, 64 * KIB)
AUTO_RECALL_MAX_RESULTS: Final = (1, 10, 5)
AUTO_RECALL_MAX_CHARS: Final = (256, 16_000, 4_000)
AUTO_RECALL_TIMEOUT_MS: Final = (50, 5_000, 1_000)
CONTEXT_MAX_TOKENS: Final = (0, 2**53 - 1, None)
ENCRYPTION_KEY_MIN_BYTES: Final = 32

# --- asking ------------------------------------------------------------------------------------------------------------
QUERY_MAX_CHARS: Final = 8_000
"""A longer query is cut here, with a warning: a question is not a document (100,000 characters arrive in week one)."""
QUERY_MAX_TERMS: Final = 64
"""Distinct terms of a query that are searched; the rarest win."""
OPERATOR_MAX_RESULTS: Final = 100
DEFAULT_RESULTS: Final = 6
EXCERPT_MAX_CHARS: Final = 700
"""UTF-16 units; the same as the excerpts hosts are used to."""
GET_MAX_CHARS: Final = 12_000
"""UTF-16 units of one get; a single longer line is cut and can be read on with ``next_from``."""

# --- remembering ---------------------------------------------------------------------------------------------------------
SESSION_KEY_MAX_BYTES: Final = 1_024
RUN_ID_MAX_BYTES: Final = 512
HOST_ID_MAX_BYTES: Final = 512
MESSAGES_PER_CALL_MAX: Final = 10_000
EPISODE_MAX_UNITS: Final = 2_000
"""UTF-16 units of an L1 episode, as in the layered-memory product."""
FACTS_PER_MESSAGE_MAX: Final = 8
SAME_TURN_WINDOW_MS: Final = 15 * 60 * 1000
"""Two copies of one turn that reach us by different ways may carry clocks this far apart (host clock against file)."""

# --- files -----------------------------------------------------------------------------------------------------------------
SESSION_KEY_BYTES: Final = 32
NOTE_MAX_BYTES: Final = 16 * MIB
TRANSCRIPT_LINE_MAX_BYTES: Final = 16 * MIB
"""A longer line is refused with its number; reading it would break the import's memory bound (200 MiB). Measured on the
worst text, ASCII with one emoji in six characters: a line of 16 MiB peaks at 156 MiB, one of 31 MiB at 282 MiB."""
BUSY_TIMEOUT_MS: Final = 10_000
CHUNK_TOKENS: Final = 400
CHUNK_OVERLAP_TOKENS: Final = 80
CONTEXT_MESSAGES: Final = 2
"""Messages before and after whose text is indexed as a message's context (measured: LoCoMo R@10 .638 alone, .786 with)."""
FRESHNESS_INTERVAL_S: Final = 1.0
FRESHNESS_BUDGET_S: Final = 0.5
"""A search may spend this long applying small changes before it answers with ``stale``."""
