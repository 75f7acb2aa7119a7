"""Workflows that are kept: templates on a shelf, runs as they were recorded, and what can be learnt from them."""
