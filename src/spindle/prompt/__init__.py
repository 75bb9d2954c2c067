"""History and settings become a `Request`; `build.build_request` is the only door. No clock, no network, no queues."""
