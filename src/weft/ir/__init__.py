"""The intermediate form of a composition: what is written, read, checked and kept."""
