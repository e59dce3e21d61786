"""How a BMC behaves: one pure state machine per concern, and the Bmc that holds their states."""
