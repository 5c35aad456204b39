"""What is asked of a replica: request lengths, how many at once, and the cache they need."""
