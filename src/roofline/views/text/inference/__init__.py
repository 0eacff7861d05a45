"""Text of steps, static batches and memory."""
