"""The one door: the Python API, and the layer through which every front end opens and drives threads."""
