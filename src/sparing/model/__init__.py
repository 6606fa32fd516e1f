"""What rows teach: sums, regression, radii, assumptions, the prior, ε-supported sets."""
