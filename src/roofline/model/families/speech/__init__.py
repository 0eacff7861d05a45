"""Models of speech and sound: encoders, transcribers, voices, codecs."""
