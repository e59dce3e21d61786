"""Measures one bmcsim process against the numbers it promises; see `python -m bench --help`.

One core belongs to the server, the others to the generators, and everything stays on loopback.
`server` starts and stops what is measured, `paths` and `client` say what is asked of it and how, each of
`density`, `throughput`, `openloop`, `connections` and `storm` measures one thing, and `report` judges and keeps
the results.
"""
