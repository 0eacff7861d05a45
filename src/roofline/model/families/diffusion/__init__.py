"""Image and video generators, by the classes of diffusers."""
