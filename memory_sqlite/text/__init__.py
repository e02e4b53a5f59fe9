"""Text as Unicode: normal form, units, cuts that never split a grapheme. No storage, no search rules."""
