"""`python -m bmcsim`."""

from bmcsim.cli import main

main()
