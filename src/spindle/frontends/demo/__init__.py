"""`spindle demo`: the real loop, sandbox and patching, with a practice model in place of a real one."""
