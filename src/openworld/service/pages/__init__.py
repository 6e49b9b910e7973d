"""The page: what people see of the service, rendered on the server."""
