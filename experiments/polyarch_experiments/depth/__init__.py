"""Claims of Antorán, Allingham and Hernández-Lobato (2020), "Variational Depth Search in ResNets", arXiv:2002.02797."""
