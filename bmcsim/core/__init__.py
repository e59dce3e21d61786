"""The bottom layer: errors, clock, timer heap and small types. Knows nothing of BMCs."""
