"""Hostile and random requests, in any number: `python -m tests.fuzz --help`."""
