"""Networks of images: what they see with, one room for each thing that is built on them."""
