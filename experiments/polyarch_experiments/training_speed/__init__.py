"""Claims of "Improving weight-sharing Neural Architecture Search with a marginal likelihood estimator" (thesis, 2021).

It builds on Ru, Lyle, Schut, Fil, van der Wilk and Gal (2021), "Speedy Performance Estimation for Neural Architecture
Search", arXiv:2006.04492: the sum of the training losses (SoTL) estimates how well an architecture generalises.
"""
