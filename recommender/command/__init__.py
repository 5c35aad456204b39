"""What each command does between its arguments and its text; the commands themselves stay a few lines."""
