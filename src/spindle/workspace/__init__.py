"""Facts about the working directory, as plain data: project documents, skills, git, the user's shell. No prompts."""
