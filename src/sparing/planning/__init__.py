"""What going live costs."""
