"""The latent vector behind one output of a known layer, corrupted or not: v = ReLU(A c + b) + e + w.

``methods.py`` says what is known of c beforehand and has the methods: one finds c at the accuracy of someone who knows
which entries are corrupted, one is program (47) of Mazumdar and Rawat (2018), section 4, as written. ``recover.py``
takes all rows of a table through a method.
"""
