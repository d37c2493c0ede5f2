"""Windows: a Job Object around the command.

UNTESTED: written from the public documentation, never run; the canaries decide what is claimed. Covers by
design: the whole tree ends with the job, and the job ends with the app (kill on close); number of processes
and memory of the tree are held by the kernel. Does not cover: files and the network. That is no boundary, and
the line says so.
"""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.sandbox import plain
from tools.sandbox.command import Command

NAME = "windows: job object only"

_EXTENDED_LIMIT_INFORMATION = 9
_ACTIVE_PROCESS, _JOB_MEMORY, _DIE_ON_UNHANDLED, _KILL_ON_CLOSE = 0x8, 0x200, 0x400, 0x2000
_CREATE_SUSPENDED, _CREATE_NO_WINDOW = 0x4, 0x08000000


class _BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION of winnt.h."""

    _fields_ = [
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    ]


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION of winnt.h: 144 bytes on a 64-bit system."""

    _fields_ = [
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    ]


def limits_of(command: Command) -> ExtendedLimits:
    """Write a command's limits as the job's."""
    limits = ExtendedLimits()
    limits.basic.flags = _ACTIVE_PROCESS | _JOB_MEMORY | _DIE_ON_UNHANDLED | _KILL_ON_CLOSE
    limits.basic.active_processes = command.limits.processes
    limits.job_memory = command.limits.memory_bytes
    return limits


if sys.platform == "win32":

    def spawn(command: Command) -> plain.PlainProcess:
        """Start a command in a job of its own. Raises `OSError`; then it was never resumed."""
        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel32.CreateJobObjectW.restype = ctypes.c_void_p
        windows = _windows_folder(kernel32)
        scratch = command.workspace / ".tmp"
        scratch.mkdir(exist_ok=True)
        job = ctypes.c_void_p(_checked(kernel32.CreateJobObjectW(None, None)))
        program = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(windows, command.workspace, scratch),
            cwd=command.cwd,
            creationflags=_CREATE_SUSPENDED | _CREATE_NO_WINDOW,
        )
        try:
            limits = limits_of(command)
            kind, size = _EXTENDED_LIMIT_INFORMATION, ctypes.sizeof(limits)
            _checked(kernel32.SetInformationJobObject(job, kind, ctypes.byref(limits), size))
            handle = ctypes.c_void_p(int(program._handle))  # type: ignore[attr-defined]
            _checked(kernel32.AssignProcessToJobObject(job, handle))
            if ctypes.WinDLL("ntdll").NtResumeProcess(handle) != 0:
                raise OSError("NtResumeProcess failed")
        except BaseException:
            program.kill()
            raise
        return plain.PlainProcess(program, command, _ending(kernel32, job), None)

    def _ending(kernel32: ctypes.WinDLL, job: ctypes.c_void_p) -> Callable[[], None]:
        """Give the call that ends the job. It keeps the job's handle alive until then: closing it would end
        the job."""

        def end() -> None:
            kernel32.TerminateJobObject(job, 1)

        return end

    def _checked(result: int | None) -> int:
        if not result:
            raise ctypes.WinError(ctypes.get_last_error())
        return result

    def _windows_folder(kernel32: ctypes.WinDLL) -> Path:
        buffer = ctypes.create_unicode_buffer(260)
        _checked(kernel32.GetWindowsDirectoryW(buffer, len(buffer)))
        return Path(buffer.value)

    def _environment(windows: Path, workspace: Path, scratch: Path) -> dict[str, str]:
        """Build the whole environment; without SystemRoot, sockets and random numbers do not work."""
        system = windows / "System32"
        python = Path(sys.prefix)
        folders = [python, python / "Scripts", system, windows, system / "WindowsPowerShell" / "v1.0"]
        return {
            "SystemRoot": str(windows),
            "ComSpec": str(system / "cmd.exe"),
            "PATH": ";".join(map(str, folders)),
            "PATHEXT": ".COM;.EXE;.BAT;.CMD",
            "USERPROFILE": str(workspace),
            "TEMP": str(scratch),
            "TMP": str(scratch),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
        }
