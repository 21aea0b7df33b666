"""What a known model says about rows: densities, residuals, p-values, and a pass that asks every row."""
