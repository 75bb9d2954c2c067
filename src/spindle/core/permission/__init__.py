"""May a call do what it wants? Policy decides; where policy says "ask", a hook or the user decides.

`approvals` holds the session's open questions, their answers and the grants; it is small and always loaded. The
rest is loaded with the first call: `asking` has the one loop that every question goes through, and the permission for a
command; `kinds` maps each other permission to its question, `matter` is the base of all kinds of question, and
`commands`, `patches`, `remote_tools` and `functions` are the kinds. `person` asks questions that are not about
permission.
"""
