"""The last step into the sandbox: a program of a few instructions that gives up writing, then becomes the command.

A read-only mount does not cover named pipes: whoever can see one can write into it, and a program outside reads that.
Landlock covers them, but must be applied by the process itself, after the launcher has mounted everything (a restricted
process may not mount) and before the command runs. There is no program on every machine that does this, and starting
an interpreter would cost more than the sandbox; so this one is made here, as bytes, like the filter of system calls.

It does, in the words of the kernel's manual: landlock_create_ruleset; for each path open, landlock_add_rule, close;
landlock_restrict_self; close itself; execve of its arguments, by /bin/sh if they are a script without a first line.
`SOURCE` is what the bytes were assembled from; a test assembles it again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from spindle.process.sandbox import kernel, seccomp

WRITE_FILE, REFER = 1 << 1, 1 << 13
LEAST_ABI = 2
"""Under earlier versions a restricted process cannot rename a file into another folder."""

_BESIDE_ROOTS = ("/dev", "/dev/mqueue", "/proc", *(f"/proc/self/fd/{number}" for number in range(3)))
"""What can be written in every mode: devices and processes of the sandbox's own, and the streams it was given."""

_HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_MACHINES = {"x86_64": 62, "aarch64": 183}
_BASE = 0x400000
_PARAMETERS = struct.Struct("<QQ8sQ56sQ56s")
"""What to restrict, its own descriptor, the shell, and what it says when there is no such program, or another error."""
_MISSING = b"spindle: there is no such program\n"
_REFUSED = b"spindle: the program cannot be executed\n"

SOURCE = {
    "x86_64": """
    mov rbx, rsp
    lea r15, [rip + parameters]
    mov rdi, r15
    mov esi, 8
    xor edx, edx
    mov eax, 444
    syscall
    test eax, eax
    js refused
    mov r12d, eax
    lea r13, [r15 + 152]
    sub rsp, 16
grant:
    mov rax, [r13]
    test rax, rax
    jz enter
    mov [rsp], rax
    lea rdi, [r13 + 16]
    mov esi, 0x280000
    mov eax, 2
    syscall
    test eax, eax
    js next
    mov r14d, eax
    mov [rsp + 8], eax
    mov edi, r12d
    mov esi, 1
    mov rdx, rsp
    xor r10d, r10d
    mov eax, 445
    syscall
    mov edi, r14d
    mov eax, 3
    syscall
next:
    mov rax, [r13 + 8]
    lea r13, [r13 + rax + 16]
    jmp grant
enter:
    mov edi, r12d
    xor esi, esi
    mov eax, 446
    syscall
    test eax, eax
    js refused
    mov edi, r12d
    mov eax, 3
    syscall
    mov rdi, [r15 + 8]
    mov eax, 3
    syscall
    mov rax, [rbx]
    lea rdx, [rbx + rax * 8 + 16]
    lea rsi, [rbx + 16]
    mov rdi, [rsi]
    mov eax, 59
    syscall
    cmp eax, -8
    jne failed
    lea rdi, [r15 + 16]
    lea rsi, [rbx + 8]
    mov [rsi], rdi
    mov eax, 59
    syscall
failed:
    cmp eax, -2
    jne refused
    lea rsi, [r15 + 32]
    mov rdx, [r15 + 24]
    mov r12d, 127
    jmp say
refused:
    lea rsi, [r15 + 96]
    mov rdx, [r15 + 88]
    mov r12d, 126
say:
    mov edi, 2
    mov eax, 1
    syscall
    mov edi, r12d
    mov eax, 231
    syscall
.p2align 3
parameters:
""",
    "aarch64": """
    mov x19, sp
    adr x20, parameters
    mov x0, x20
    mov x1, #8
    mov x2, #0
    mov x8, #444
    svc #0
    tbnz w0, #31, refused
    mov w21, w0
    add x22, x20, #152
    sub sp, sp, #16
grant:
    ldr x3, [x22]
    cbz x3, enter
    str x3, [sp]
    mov x0, #-100
    add x1, x22, #16
    mov w2, #0x280000
    mov x3, #0
    mov x8, #56
    svc #0
    tbnz w0, #31, next
    mov w23, w0
    str w0, [sp, #8]
    mov w0, w21
    mov x1, #1
    mov x2, sp
    mov x3, #0
    mov x8, #445
    svc #0
    mov w0, w23
    mov x8, #57
    svc #0
next:
    ldr x3, [x22, #8]
    add x22, x22, x3
    add x22, x22, #16
    b grant
enter:
    mov w0, w21
    mov x1, #0
    mov x8, #446
    svc #0
    tbnz w0, #31, refused
    mov w0, w21
    mov x8, #57
    svc #0
    ldr x0, [x20, #8]
    mov x8, #57
    svc #0
    ldr x3, [x19]
    add x2, x19, x3, lsl #3
    add x2, x2, #16
    add x1, x19, #16
    ldr x0, [x1]
    mov x8, #221
    svc #0
    cmn w0, #8
    b.ne failed
    add x0, x20, #16
    add x1, x19, #8
    str x0, [x1]
    ldr x3, [x19]
    add x2, x19, x3, lsl #3
    add x2, x2, #16
    mov x8, #221
    svc #0
failed:
    cmn w0, #2
    b.ne refused
    add x1, x20, #32
    ldr x2, [x20, #24]
    mov w24, #127
    b say
refused:
    add x1, x20, #96
    ldr x2, [x20, #88]
    mov w24, #126
say:
    mov x0, #2
    mov x8, #64
    svc #0
    mov w0, w24
    mov x8, #94
    svc #0
.p2align 3
parameters:
""",
}

_CODE = {
    "x86_64": bytes.fromhex(
        "4889e34c8d3d060100004c89ffbe0800000031d2b8bc0100000f0585c00f88c70000004189c44d8daf980000004883ec"
        "10498b45004885c0744948890424498d7d10be00002800b8020000000f0585c078264189c6894424084489e7be010000"
        "004889e24531d2b8bd0100000f054489f7b8030000000f05498b45084d8d6c0510ebae4489e731f6b8be0100000f0585"
        "c078574489e7b8030000000f05498b7f08b8030000000f05488b03488d54c310488d7310488b3eb83b0000000f0583f8"
        "f87512498d7f10488d730848893eb83b0000000f0583f8fe7510498d7720498b571841bc7f000000eb0e498d7760498b"
        "575841bc7e000000bf02000000b8010000000f054489e7b8e70000000f056690"
    ),
    "aarch64": bytes.fromhex(
        "f3030091f4090010e00314aa010180d2020080d2883780d2010000d4e007f837f503002a96620291ff4300d1c30240f9"
        "030300b4e30300f9600c8092c14200910205a052030080d2080780d2010000d48001f837f703002ae00b00b9e003152a"
        "210080d2e2030091030080d2a83780d2010000d4e003172a280780d2010000d4c30640f9d602038bd6420091e8ffff17"
        "e003152a010080d2c83780d2010000d4c003f837e003152a280780d2010000d4800640f9280780d2010000d4630240f9"
        "620e038b4240009161420091200040f9a81b80d2010000d41f200031210100548042009161220091200000f9630240f9"
        "620e038b42400091a81b80d2010000d41f080031a100005481820091820e40f9f80f80520400001481820191822e40f9"
        "d80f8052400080d2080880d2010000d4e003182ac80b80d2010000d41f2003d5"
    ),
}


@cache
def is_known() -> bool:
    """Does this kernel know what the program asks for? Whether it may be executed is to be tried."""
    return bool(seccomp.machine()) and kernel.landlock_version() >= LEAST_ABI


def opened(roots: Sequence[str]) -> int:
    """A descriptor of the program for a command that may write below `roots`. It can be executed, and closes itself."""
    made = os.memfd_create("gate", os.MFD_CLOEXEC)
    try:
        # A file that somebody could write cannot be executed.
        fd = os.open(f"/proc/self/fd/{made}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Its own descriptor's number is part of the program, so that it can close it: the command must not get it.
            os.write(made, program(seccomp.machine(), tuple(roots), fd))
        except BaseException:
            os.close(fd)
            raise
        return fd
    finally:
        os.close(made)


def through(fd: int, argv: Sequence[str]) -> list[str]:
    """`argv` behind the program, which looks nothing up itself."""
    return [f"/proc/self/fd/{fd}", *argv]


def located(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> list[str]:
    """`argv` with the path of its program. Raises FileNotFoundError when it is not on the PATH."""
    # Looked up outside, so it may have moved once the command starts; then `execve` fails, and nothing else is run.
    name = argv[0]
    if "/" in name:
        return list(argv)
    for folder in env.get("PATH", os.defpath).split(":"):
        path = f"{folder}/{name}" if folder.startswith("/") else f"{cwd}/{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return [path, *argv[1:]]
    raise FileNotFoundError(2, os.strerror(2), name)


def program(arch: str, roots: tuple[str, ...], fd: int) -> bytes:
    """The program as a file. `fd` is the descriptor it will be executed by."""
    code = _CODE[arch]
    grants = _grants(roots)
    parameters = _PARAMETERS.pack(WRITE_FILE | REFER, fd, b"/bin/sh", len(_MISSING), _MISSING, len(_REFUSED), _REFUSED)
    size = _HEADER.size + _SEGMENT.size + len(code) + len(parameters) + len(grants)
    start = _BASE + _HEADER.size + _SEGMENT.size
    header = _HEADER.pack(
        *(b"\x7fELF", 2, 1, 1, 0, 2, _MACHINES[arch], 1, start, _HEADER.size, 0, 0),
        *(_HEADER.size, _SEGMENT.size, 1, 0, 0, 0),
    )
    # One segment to read and execute, none to write: what the program changes (the shell's argv) is on its stack.
    # Aligned to 64 KiB, the largest page that arm64 has.
    segment = _SEGMENT.pack(1, 5, 0, _BASE, _BASE, size, size, 1 << 16)
    return header + segment + code + parameters + grants


@lru_cache(maxsize=16)
def _grants(roots: tuple[str, ...]) -> bytes:
    """Where writing stays possible, and that files may be renamed from any folder to any other."""
    # Landlock refuses to move files between folders even if it is not asked to. Only what it handles can be allowed, so
    # that is handled too, and given back for the whole tree: what may be renamed is the mounts' business.
    allowed = {"/": REFER}
    for path in (*_BESIDE_ROOTS, *roots):
        allowed[path] = allowed.get(path, 0) | WRITE_FILE
    found = b""
    for path, rights in allowed.items():
        name = os.fsencode(path) + b"\0"
        name += bytes(-len(name) % 8)
        found += struct.pack("<QQ", rights, len(name)) + name
    # A grant without rights ends the list. The program skips a path that it cannot open: there is nothing to write.
    return found + bytes(8)
