"""What stands between clients and answers: connections, limits, queues and worker processes."""
