"""Decoders with mixtures of experts, and those whose attention is latent or selects its tokens."""
