"""What the log alone teaches: per-action sums, regression, assumptions, and policies that stay in support."""
