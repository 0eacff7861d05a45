"""Where configs come from: files, the Hub, the catalog; all of them untrusted."""
