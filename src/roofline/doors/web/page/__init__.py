"""The page: its form, its files, and its export without a server."""
