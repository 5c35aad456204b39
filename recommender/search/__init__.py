"""What is best: candidates, solver, ranking, ladder, refusals."""
