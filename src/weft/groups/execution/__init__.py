"""A call of an action: which one is meant, whether its arguments fit, how its function runs, what is told of it."""
