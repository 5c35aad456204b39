"""What is shown: an answer as a table, JSON or CSV, and the command that starts it. Nothing here decides anything."""
