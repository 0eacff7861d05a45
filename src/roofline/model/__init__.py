"""What a transformer is: modules, models, families, and where configs come from."""
