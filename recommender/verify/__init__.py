"""An engine's start-up log against what is predicted for the configuration it states."""
