"""Images and recordings of a prompt: their tokens, by the rules of each model's processor."""
