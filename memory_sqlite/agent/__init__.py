"""One agent, opened: store, current generation and workspace put together for the door. Surfaces never come here."""
