"""Claims of Zhou, Sun, Luo, Zha and Zeng (2020), "Posterior-Guided Neural Architecture Search", arXiv:1906.09557."""
