"""What can be had: GPUs, offers, models, checkpoints and traces, each row with its source and date."""
