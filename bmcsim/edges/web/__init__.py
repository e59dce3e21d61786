"""The web page: what a fleet looks like, in one document without anything from elsewhere."""
