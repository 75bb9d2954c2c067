"""The terminal interface: what a person sees who types `spindle`.

Events become cells (`cells/`), cells become lines (`text/`), lines become bytes (`screen/`). Keys go the other way:
bytes become keys (`screen/`), and the composer (`composer/`), a view (`views/`) or a slash command (`commands/`) takes
them. `app.py` ties the two directions together; nothing here knows the inside of a session.
"""
