"""`python -m bisectperf`."""

from bisectperf.cli import main

main()
