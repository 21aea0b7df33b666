"""
Corrupted outputs: the latent vector behind them
================================================

An output of a known layer tells its latent vector even if a third of its entries
are wrong, and nobody says which.
"""

import matplotlib.pyplot as plt
import numpy as np

import unrelu

rng = np.random.default_rng(0)
A, b = rng.standard_normal((200, 10)), rng.standard_normal(200)
c = rng.standard_normal(10)
v = np.maximum(A @ c + b, 0.0) + 0.05 * rng.standard_normal(200)
wrong = rng.random(200) < 0.35
v[wrong] = rng.uniform(0.0, 9.0, wrong.sum())

# %%
# Least squares on the positive entries ignores the floor and the wrong entries.

result = unrelu.recover_latent(A, b, v)
squares = np.linalg.lstsq(A[v > 0], (v - b)[v > 0])[0]
for name, latent in {"recovered": result.latent, "least squares": squares}.items():
    print(f"{name}: error {np.linalg.norm(latent - c):.3f}")
found = np.mean(result.outliers[wrong] != 0)
print(f"noise {result.noise_scale:.3f}; {found:.0%} of the wrong entries found")

# %%
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.axline((0, 0), slope=1, color="0.8", linewidth=1)
again = np.maximum(A @ result.latent + b, 0.0)
axis.plot(
    v[~wrong], again[~wrong], "o", ms=4, color="#0b5cad", label="right entries"
)
axis.plot(v[wrong], again[wrong], "x", ms=5, color="#d55e00", label="wrong entries")
axis.set(xlabel="entry as given", ylabel="the same entry, from the latent vector")
axis.legend(frameon=False)
plt.show()
