"""Rows, what is asked of them, and the engines that ask: here, on a GPU, on a Dask cluster."""
