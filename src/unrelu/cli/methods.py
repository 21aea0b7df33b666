"""What each --method is, one line each: the last part of a command's help.

The words stand here, and not with the methods, because help must not wait for the libraries that these import.
"""

from __future__ import annotations

METHODS = {
    "fit": {
        "auto": "default; full_likelihood where quick or limits vary, else one_pass.",
        "one_pass": "for large tables: censored likelihoods and weighted moments.",
        "robust": "the same while up to nearly half of the rows are outliers.",
        "robust_cells": "the same while single cells are bad, and rows beside them.",
        "full_likelihood": "all cells of a row together; factors plus noise; slower.",
        "sgd": "Wu et al. 2019: stochastic gradients; latent means above the floor.",
        "filtered_gradient": "Bulusu et al. 2022: filtered batches; the same.",
        "median": "Wu et al. 2019, footnote 4: medians as means; the same.",
    },
    "factor": {
        "censored_als": "default; least squares, exact where there is no noise.",
        "tobit_em": "normal noise inside the rectifier: its size, standard errors.",
    },
    "recover": {
        "robust": "default; up to nearly half of a row's values may be outliers.",
        "lasso": "program (47) of Mazumdar and Rawat 2018, as written.",
    },
    "peel": {
        "facets": "default; weights of any sign, by facets of the rows; finds --inputs.",
        "separable": "weights >= 0 and few units, by extreme rows; with --linear.",
    },
}


def methods_in_words(command: str) -> str | None:
    """The methods of a command, a paragraph each; None where it has none.

    >>> print(methods_in_words("factor").split(";")[0])
    Methods:
    <BLANKLINE>
    censored_als: default
    """
    if command not in METHODS:
        return None
    return "\n\n".join(["Methods:", *(f"{name}: {words}" for name, words in METHODS[command].items())])
