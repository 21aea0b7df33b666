"""What a known model says about rows: densities and residuals as functions of arrays."""
