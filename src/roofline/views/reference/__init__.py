"""Reference pages and type stubs, generated from the declarations."""
