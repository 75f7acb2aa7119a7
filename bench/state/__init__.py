"""Benchmarks of state: what patterns with a store cost a call, and how many durable sagas a second there are."""
