"""Benchmarks of the registry: loading it, lists for agents, what checks cost a call, and reloads under load."""
