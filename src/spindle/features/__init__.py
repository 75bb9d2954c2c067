"""What a session can do beyond asking a model, one file or folder each. None of them imports another."""
