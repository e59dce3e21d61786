"""HTTP: the Redfish port with its fast lane, and the admin listener."""
