"""How a model is learned from rows: in one pass, by the full likelihood, with outlier rows or bad cells left out."""
