"""From a scenario's YAML text to a Scenario: reading with line numbers, checking, and one report of every fault."""
