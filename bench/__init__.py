"""Measures one bmcsim process against the numbers it promises; see `python -m bench --help`.

One core belongs to the server, the others to the generators, and everything stays on loopback.
`server` starts and stops what is measured, `paths` and `client` say what is asked of it and how, each of
`density`, `throughput`, `openloop`, `connections` and `storm` measures one thing, and `report` judges and keeps
the results. `soak` and `restart` check while they load: `owner` and `ledger` know what must be true, `chaos` and
`lives` make it hard, `watch` and `trend` see what grows. `peers` measures others beside bmcsim. `load` is a package of
its own: locust against any Redfish endpoints.
"""
