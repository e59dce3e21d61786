"""Load of a whole site: one locust user class per client of NVIDIA Infra Controller, run phase by phase.

`endpoints` says which BMCs, `phases` in which order and how, `clients` what each client asks and how it checks the
answers (no I/O), `known` what was learnt about a BMC, `rota` whose turn it is. `users`, `worker` and `master` are
the processes of locust; nothing else imports it, so the rest works where it is not installed. `command` puts them
together, `sampler` watches the server meanwhile, `report` writes what came of it.
"""
