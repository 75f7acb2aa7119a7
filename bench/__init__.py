"""Benchmarks: weft against hand-written Python, as ratios measured in one run."""
