"""Colours of well-known schemes, for those who choose one by name."""

from __future__ import annotations

from typing import NamedTuple


class Palette(NamedTuple):
    background: str
    """`dark` or `light`: what the colours are made for. The background itself stays the terminal's."""
    dim: int
    colors: tuple[int, int, int, int, int, int]
    """Red, green, yellow, blue, magenta, cyan."""


PALETTES = {
    "catppuccin-frappe": Palette("dark", 0x838BA7, (0xE78284, 0xA6D189, 0xE5C890, 0x8CAAEE, 0xCA9EE6, 0x81C8BE)),
    "catppuccin-latte": Palette("light", 0x8C8FA1, (0xD20F39, 0x40A02B, 0xDF8E1D, 0x1E66F5, 0x8839EF, 0x179299)),
    "catppuccin-macchiato": Palette("dark", 0x8087A2, (0xED8796, 0xA6DA95, 0xEED49F, 0x8AADF4, 0xC6A0F6, 0x8BD5CA)),
    "catppuccin-mocha": Palette("dark", 0x7F849C, (0xF38BA8, 0xA6E3A1, 0xF9E2AF, 0x89B4FA, 0xCBA6F7, 0x94E2D5)),
    "dracula": Palette("dark", 0x6272A4, (0xFF5555, 0x50FA7B, 0xF1FA8C, 0xBD93F9, 0xFF79C6, 0x8BE9FD)),
    "github": Palette("light", 0x6E7781, (0xCF222E, 0x116329, 0x953800, 0x0969DA, 0x8250DF, 0x1B7C83)),
    "gruvbox-dark": Palette("dark", 0x928374, (0xFB4934, 0xB8BB26, 0xFABD2F, 0x83A598, 0xD3869B, 0x8EC07C)),
    "gruvbox-light": Palette("light", 0x7C6F64, (0x9D0006, 0x79740E, 0xB57614, 0x076678, 0x8F3F71, 0x427B58)),
    "monokai-extended": Palette("dark", 0x75715E, (0xF92672, 0xA6E22E, 0xE6DB74, 0x66D9EF, 0xAE81FF, 0xA1EFE4)),
    "nord": Palette("dark", 0x7B88A1, (0xBF616A, 0xA3BE8C, 0xEBCB8B, 0x81A1C1, 0xB48EAD, 0x88C0D0)),
    "one-half-dark": Palette("dark", 0x7F848E, (0xE06C75, 0x98C379, 0xE5C07B, 0x61AFEF, 0xC678DD, 0x56B6C2)),
    "one-half-light": Palette("light", 0x8B8D94, (0xE45649, 0x50A14F, 0xC18401, 0x0184BC, 0xA626A4, 0x0997B3)),
    "solarized-dark": Palette("dark", 0x657B83, (0xDC322F, 0x859900, 0xB58900, 0x268BD2, 0xD33682, 0x2AA198)),
    "solarized-light": Palette("light", 0x839496, (0xDC322F, 0x859900, 0xB58900, 0x268BD2, 0xD33682, 0x2AA198)),
}
