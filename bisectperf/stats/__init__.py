"""Floats in, results out: numpy and scipy only, nothing of the package."""
