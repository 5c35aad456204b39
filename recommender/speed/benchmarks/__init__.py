"""Results of load-test tools, read as runs that anchor the speed model."""
