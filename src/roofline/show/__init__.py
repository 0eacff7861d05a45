"""Views: tables, CSV, JSON. No arithmetic beyond units."""
