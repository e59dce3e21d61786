"""NICo's API: addresses for the fleet, and the registration of its machines.

Needs the extra `bmcsim[nico]`. `common.proto` and `forge.proto` have what is used of the API; `make proto` makes the
`_pb2` modules of them.
"""
