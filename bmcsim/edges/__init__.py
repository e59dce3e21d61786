"""One folder per outside system; edges do I/O and never import each other."""
