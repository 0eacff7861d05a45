"""Language models of multimodal models."""
