"""What fits: weights, KV cache, reserve, and whether a replica starts."""
