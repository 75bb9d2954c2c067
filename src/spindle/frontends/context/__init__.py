"""`spindle context`: what the model of a recorded thread saw, and what it cost, as text, JSON or a page with plots."""
