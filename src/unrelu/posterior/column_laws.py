"""Columns of a model in the user's units, one by one: as the table shows them, or before they were cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from unrelu.contracts import FloatArray
from unrelu.posterior.filling import Filling
from unrelu.posterior.marginal_values import CutNormals, finite
from unrelu.shapes import cut_from_latent

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian

_POINTS = 10_000
_QUARTILES = (0.25, 0.5, 0.75)


def column_laws(model: RectifiedGaussian, below: str = "auto") -> list[dict[str, Any]]:
    """Mean, standard deviation and quartiles of every column, and of which law they are.

    >>> from unrelu.model import RectifiedGaussian
    >>> [found["law"] for found in column_laws(RectifiedGaussian([1.0, 1.0], np.eye(2), floor=[0.0, 0.5]))]
    ['as seen', 'before the floor']
    """
    found = []
    for j, as_seen in enumerate(Filling(below=below).as_seen(model).tolist()):
        one = model if model.n_features == 1 else model.marginal(j)
        share, mean, std, quartiles = (_as_seen if as_seen else _before_the_floor)(one)
        found.append(
            {
                "column": str(j) if model.feature_names is None else model.feature_names[j],
                "shape": "normal" if model.shapes is None else model.shapes[j].kind,
                "law": "as seen" if as_seen else "before the floor",
                "share_floored": share,
                "mean": mean,
                "std": std,
                **dict(zip(("lower_quartile", "median", "upper_quartile"), quartiles.tolist(), strict=True)),
            }
        )
    return found


def _as_seen(one: RectifiedGaussian) -> tuple[float, float, float, FloatArray]:
    """Of what a single column's samples are like, from evenly spread ones."""
    z, latent = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None], one.latent
    x = np.clip(one.bias + one.row_norms * z, latent.floor, latent.ceiling)
    if one.shapes is not None:
        x = cut_from_latent(one.shapes, x, one.floor, one.ceiling, True)
    share = float(np.mean((x <= one.floor) | (x >= one.ceiling)))
    return share, float(x.mean()), float(x.std()), np.quantile(x, _QUARTILES)


def _before_the_floor(one: RectifiedGaussian) -> tuple[float, float, float, FloatArray]:
    """Of f(y), not cut off."""
    bias, norm, latent = one.bias, one.row_norms, one.latent
    spread, y = np.maximum(norm, 1e-300), bias + norm * ndtri(_QUARTILES)
    share = ndtr((latent.floor - bias) / spread) + ndtr((bias - latent.ceiling) / spread)
    if one.shapes is None or one.shapes[0].kind == "normal":
        return float(share[0]), float(bias[0]), float(norm[0]), y
    f = finite(one.shapes[0].from_latent)
    mean, std = CutNormals(bias, norm, bias, np.zeros(1, dtype=np.int8)).moments(f)
    return float(share[0]), float(mean[0]), float(std[0]), f(y)
