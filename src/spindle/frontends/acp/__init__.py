"""`spindle acp`: editors talk to Spindle over the Agent Client Protocol, version 1."""
