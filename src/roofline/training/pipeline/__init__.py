"""Pipeline schedules: the order of work on each stage, and how long it takes."""
