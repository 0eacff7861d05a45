"""Text of catalogs and this machine."""
