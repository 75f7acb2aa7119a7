"""How much of a result a model gets: the fields that it asked for, within limits, and what it is told of the rest."""
