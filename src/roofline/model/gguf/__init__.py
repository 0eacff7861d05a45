"""GGUF files, as llama.cpp and Ollama keep weights: their tensor types, the mixes of them, headers, metadata."""
