"""Results as files, written atomically or in resumable pieces."""
