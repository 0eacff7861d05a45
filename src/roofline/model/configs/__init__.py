"""Reading a config.json: values checked when read, defaults of its class, keys that change nothing."""
