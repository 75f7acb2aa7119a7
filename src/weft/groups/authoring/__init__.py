"""Grouped tools in Python: decorators, parameters, and the tool that comes of them."""
