"""The real code of a model, run on shapes alone → a model of the matrix products and attention that it does."""
