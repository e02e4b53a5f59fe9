"""Keys: where the user's key comes from, the keyring that wraps the data key, the key of one file. No database here."""
