"""Experimental: networks of three layers, x <- h <- g <- z. Nothing here is run for fewer layers.

``three_layers.py`` has the order of the steps and the inputs of rows, ``faces.py`` the units of some rows.
It takes exact outputs in double precision, and units that are often on and often off. Expect refusals, or the time to
be up: of 9 networks of an audit 1 was found, of the 8 on which the rules were chosen 5 (docs/research/029).
"""
