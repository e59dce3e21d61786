"""Addresses from a real DHCP server: one UDP socket is the relay of all interfaces (RFC 2131, RFC 3046)."""
