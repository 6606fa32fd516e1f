"""What people look at: figures and self-contained pages."""
