"""The kernel: `turn` (the loop; read this first), `session` (the actor), `approvals`, `calls`, `stream`, `engine`."""
