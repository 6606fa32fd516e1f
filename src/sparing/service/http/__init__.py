"""The service over HTTP: typed routes, keys, problem details, OpenAPI."""
