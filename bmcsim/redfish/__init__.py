"""The protocol: what one Redfish request to one BMC means (DSP0266). Pure: no sockets, no clock, no waiting."""
