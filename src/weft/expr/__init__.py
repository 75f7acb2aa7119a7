"""The small languages inside a document: paths, predicates, conditions, templates, schemas, durations."""
