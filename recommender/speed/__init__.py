"""How fast a replica serves: time to first token, time per output token, throughput, each with its error band."""
