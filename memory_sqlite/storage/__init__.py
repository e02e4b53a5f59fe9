"""The canonical store as a file: connections, schema, session key, change log. Knows nothing of search."""
