"""Export an estimate's layout as a framework's config, and list what the framework cannot express."""
