"""The latent vector behind one output of a known layer, corrupted or not: v = ReLU(A c + b) + e + w.

``recover.py`` is the conductor: all rows of a table. ``methods.py`` has the methods, with parameters of their own:
``robust.py`` finds c at the accuracy of someone who knows which entries are corrupted; ``lasso.py`` is program (47) of
Mazumdar and Rawat (2018), section 4, as written. ``priors.py`` says what is known of c beforehand.
"""
