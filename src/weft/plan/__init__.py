"""From a document and what upstreams have to a snapshot of plans that run."""
