"""Running plans: the engine, one call and what it may spend, its trace."""
