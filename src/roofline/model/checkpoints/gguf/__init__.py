"""GGUF files, the weight format of llama.cpp and Ollama: tensor types and their mixes, headers, metadata."""
