"""Kubernetes: keeps one Service for each BMC of all simulators in a namespace."""
