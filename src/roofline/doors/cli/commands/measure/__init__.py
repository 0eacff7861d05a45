"""Commands that read measurements."""
