"""What is kept how long: expiry, holds and pins."""
