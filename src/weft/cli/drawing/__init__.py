"""Drawings: a composition as blocks, blocks as Mermaid or SVG, a trace as a timeline."""
