"""Configs of training frameworks that run exactly the layout of a training estimate, and what they cannot express."""
