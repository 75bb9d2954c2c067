"""May it be done? Policy decides; where policy says "ask", a hook or a person does.

`approvals` holds the session's open questions, their answers and what was granted; it is small and always loaded. The
rest comes with the first call: `asking` is the one loop that every question goes through, and the permission of a
command; `kinds` says which question each other permission is, `matter` what a kind of question is, and `commands`,
`patches`, `remote_tools` and `functions` are the kinds. `person` puts the questions that are not about permission.
"""
