"""Discrete-event simulation of a server under traffic, request by request."""
