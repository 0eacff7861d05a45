"""Images and text together, without a language model of its own: contrast, captions, pages."""
