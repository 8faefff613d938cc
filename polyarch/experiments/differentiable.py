"""What the experiments on differentiable search share."""

DOCUMENT = "differentiable search"
