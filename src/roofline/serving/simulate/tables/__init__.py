"""Readers of traces and tables of requests, which are untrusted files."""
