"""How a fleet is deployed in Kubernetes beside NICo: what it needs, and whether a site can take it."""
