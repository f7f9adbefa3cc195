"""The checks, by tier."""
