"""DMTF's tools against every profile: `make conformance` runs them, test_conformance.py judges the results."""
