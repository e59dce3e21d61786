"""Discovery by SSDP (DSP0266 12.4): one UDP socket answers searches for all BMCs."""
