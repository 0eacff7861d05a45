"""Commands that ask what would be otherwise: other machines, layouts, settings and limits."""
