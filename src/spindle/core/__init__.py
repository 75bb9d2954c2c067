"""The kernel: `turn` (the loop; read this first), `session` (the actor), `permission`, `calls`, `stream`, `engine`."""
