"""Benchmarks of the gateway: CPU, time and memory of `weft serve`, beside a bare proxy that does nothing but relay."""
