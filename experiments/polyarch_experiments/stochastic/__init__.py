"""Claims of Deng, Dong, Zhang and Zhu (2020), "Understanding and Exploring the Network with Stochastic Architectures".

NeurIPS 2020. The paper calls such a network NSA.
"""
