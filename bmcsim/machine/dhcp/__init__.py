"""How an interface gets its address (RFC 2131): the words, the lease and the client's state machine."""
