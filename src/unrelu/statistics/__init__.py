"""Records: what one pass over the rows keeps. Frozen; records of disjoint rows merge."""
