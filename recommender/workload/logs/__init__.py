"""Reading request logs: formats, column names, timestamps, and the tally that a summary is made from."""
