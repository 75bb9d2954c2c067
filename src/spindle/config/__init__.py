"""Files, environment and flags → one frozen `Config`. Nothing here starts anything or talks to a server but `oss`."""
