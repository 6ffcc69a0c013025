"""Machines: one primitive, several ways to reach them."""
