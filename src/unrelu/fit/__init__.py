"""How a model is learned from rows: in one pass, by the full likelihood, with outlier rows or bad cells left out.

Here are the names for methods of one's own, and for what rows of a known model say of its columns and pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.fit.columns import refuse_tiny as refuse_tiny
    from unrelu.fit.columns import row_influence as row_influence
    from unrelu.fit.columns import warn_of_constants as warn_of_constants
    from unrelu.fit.expected_pairs import expected_correlations as expected_correlations
    from unrelu.fit.expected_pairs import pair_influence as pair_influence
    from unrelu.fit.nearest import nearest_covariance as nearest_covariance
    from unrelu.fit.one_pass import Learned as Learned
    from unrelu.fit.one_pass import Stages as Stages
    from unrelu.fit.one_pass import learn_record as learn_record
    from unrelu.kernels.pair_solver import JOINT_P as JOINT_P
    from unrelu.kernels.pair_solver import JOINT_Q as JOINT_Q
    from unrelu.kernels.pair_solver import LARGEST_A as LARGEST_A
    from unrelu.kernels.pair_solver import moments_of_columns as moments_of_columns

__getattr__, __dir__, __all__ = lazily(__name__)
