"""Encrypting, decrypting and rotating a whole data directory, resumably."""
