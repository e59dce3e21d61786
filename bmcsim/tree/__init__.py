"""What a BMC looks like: hardware profiles as data, compiled once into an immutable tree that many BMCs share."""
