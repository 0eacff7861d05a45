"""A server under traffic, request by request."""
