"""A server request by request: the traffic that reaches it, and what becomes of it."""
