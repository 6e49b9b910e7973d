"""Authentication (keys, sessions), authorization (roles) and rate limits."""
