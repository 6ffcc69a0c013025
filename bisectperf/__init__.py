"""bisectperf: find the commit that made it slower, and prove it."""

__version__ = "0.1.0"
