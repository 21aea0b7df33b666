"""How many samples learning takes: what the papers prove, and what the default learner needs.

- :mod:`unrelu.papers.guarantees.clean`: Wu, Dimakis and Sanghavi (2019), rows without outliers. Upper and lower bounds
  up to constants that the paper does not give, the samples for an angle, what a negative bias costs.
- :mod:`unrelu.papers.guarantees.outliers`: the paper on arbitrary outliers, errors of its filtered gradient descent,
  and its eta and L, how curved the truncated likelihood is.
- :mod:`unrelu.papers.guarantees.matrix`: Mazumdar and Rawat (2018), errors of the matrix behind a rectifier with random
  biases and of its column space.
- :mod:`unrelu.papers.guarantees.latent`: the same paper, error of the latent vector behind one corrupted output of a
  layer.
- :mod:`unrelu.papers.guarantees.planner`: how many rows our learner needs for a given model, from the rows' influences.
  This is the one to plan with: right to a few per cent where the theorems hold up to a constant.
"""

from __future__ import annotations

from unrelu.papers.guarantees.clean import (
    AngleSamples,
    Complexity,
    angle_samples,
    both_positive_probability,
    distribution_complexity,
    distribution_samples,
    distribution_samples_lower_bound,
    exceedance_probability,
    negative_bias_samples,
    norm_bias_samples,
    parameter_complexity,
    parameter_samples,
    parameter_samples_lower_bound,
    probability_shift,
    sgd_batches,
    sgd_radius,
    sgd_steps,
)
from unrelu.papers.guarantees.latent import (
    LatentRecoveryBound,
    LinearImage,
    latent_recovery_bound,
    latent_recovery_rate,
    linear_image,
)
from unrelu.papers.guarantees.matrix import (
    ColumnSpaceBound,
    MatrixRecoveryBound,
    column_space_bound,
    flatness,
    least_probability,
    likelihood_gap,
    matrix_recovery_bound,
    one_bit_completion_error,
    steepness,
)
from unrelu.papers.guarantees.outliers import (
    ErrorBound,
    convexity,
    deviation_range,
    filtered_angle_error,
    filtered_parameter_samples,
    filtered_samples,
    filtered_weight_error,
    gradient_error,
    gradient_steps,
    smoothness,
)
from unrelu.papers.guarantees.planner import RowsNeeded, expected_errors, rows_needed

__all__ = [
    "AngleSamples",
    "ColumnSpaceBound",
    "Complexity",
    "ErrorBound",
    "LatentRecoveryBound",
    "LinearImage",
    "MatrixRecoveryBound",
    "RowsNeeded",
    "angle_samples",
    "both_positive_probability",
    "column_space_bound",
    "convexity",
    "deviation_range",
    "distribution_complexity",
    "distribution_samples",
    "distribution_samples_lower_bound",
    "exceedance_probability",
    "expected_errors",
    "filtered_angle_error",
    "filtered_parameter_samples",
    "filtered_samples",
    "filtered_weight_error",
    "flatness",
    "gradient_error",
    "gradient_steps",
    "latent_recovery_bound",
    "latent_recovery_rate",
    "least_probability",
    "likelihood_gap",
    "linear_image",
    "matrix_recovery_bound",
    "negative_bias_samples",
    "norm_bias_samples",
    "one_bit_completion_error",
    "parameter_complexity",
    "parameter_samples",
    "parameter_samples_lower_bound",
    "probability_shift",
    "rows_needed",
    "sgd_batches",
    "sgd_radius",
    "sgd_steps",
    "smoothness",
    "steepness",
]
