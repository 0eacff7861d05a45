"""Results as files: written atomically, appended, resumed."""
