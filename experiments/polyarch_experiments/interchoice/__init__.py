"""Claims of Laube and Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522."""
