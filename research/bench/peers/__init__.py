"""Scripts that other libraries' interpreters run; none of them imports sparing."""
