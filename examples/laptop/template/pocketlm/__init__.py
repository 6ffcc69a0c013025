"""A language model that fits in a pocket."""

__version__ = "0.1"
