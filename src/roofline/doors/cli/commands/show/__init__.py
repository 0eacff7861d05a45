"""Commands that show: catalogues, pictures, a report, the page, and tools for agents."""
