"""Stores: where stateful patterns keep what they know, each behind the `Store` port."""
