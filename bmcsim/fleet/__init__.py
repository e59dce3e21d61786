"""Many BMCs: configuration, identities, registry, routing, and the driver that executes their actions."""
