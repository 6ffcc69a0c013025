"""The recipe: what to build, launch and measure, as data."""
