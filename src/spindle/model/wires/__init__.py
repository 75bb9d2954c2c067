"""The dialects of model servers: each turns a request into a body, and the frames of an answer into model events."""
