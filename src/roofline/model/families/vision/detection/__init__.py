"""What is where in an image: objects, lines of text, key points."""
