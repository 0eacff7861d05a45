"""A value for each place of an image: depth, masks, segments."""
