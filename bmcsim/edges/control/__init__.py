"""The control plane: see and steer a whole fleet, beside what Redfish offers for each BMC."""
