"""`python -m recommender` is the command `recommender`."""

from recommender.cli import main

if __name__ == "__main__":
    main()
