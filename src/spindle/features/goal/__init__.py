"""Goals: what a thread works towards over many turns without being asked, and the tools by which a model reports."""
