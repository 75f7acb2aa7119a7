"""Compositions in Python: references, names, and the way from a module to a document."""
