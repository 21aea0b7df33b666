"""Tables with known graphs."""

import numpy as np

from unrelu import RectifiedGaussian


def chain(d, partial=0.4, mean=0.2):
    """Each column tied to the next; unit variances."""
    covariance = np.linalg.inv(np.eye(d) - partial * (np.eye(d, k=1) + np.eye(d, k=-1)))
    scale = np.sqrt(np.diagonal(covariance))
    return RectifiedGaussian(np.full(d, mean), covariance / np.outer(scale, scale))


def floored(model, n, seed):
    return model.sample(n, random_state=seed)


def chain_edges(d):
    return np.eye(d, k=1, dtype=bool) | np.eye(d, k=-1, dtype=bool)
