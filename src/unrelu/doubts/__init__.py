"""What one pass sees and the model does not expect: floors that nobody named, gaps, skewed columns, ties."""
