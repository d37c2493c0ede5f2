"""Runs commands behind a fence that was attacked before it is believed, and ends them with all that came of
them.

    fence = probe()                                              # once, at start-up
    outcome = await fence.run(Command(shell_argv("ls -l"), workspace, workspace), on_output=show)

What holds what, on Linux:

    app process                                    fence, running, linux, collector, output, scrub
     │  channel (policy, word to stop, report), stdout, stderr
     ▼
    [bwrap: namespaces, where they are allowed]    bubblewrap
     │
     ▼
    supervisor: subreaper, own signal domain       inside/supervisor, inside/usage
     │  fork, then every layer in turn, or exit 126
     ▼
    command: limits, Landlock, seccomp, no rights  inside/confine, inside/landlock, inside/seccomp
     └─ whatever it starts

| attack                                       | what stops it                          | file
|----------------------------------------------|----------------------------------------|---------------------------
| files outside, by path, link or /proc        | Landlock allow-lists; bwrap's mounts   | landlock, bubblewrap, scene
| the app's source, home, /tmp, /etc/shadow    | they are not on the list               | scene
| chmod, touch on files outside                | bwrap's read-only mounts, nothing else | bubblewrap
| TCP, UDP, unix, netlink, vsock, io_uring     | seccomp; Landlock; bwrap's namespace   | seccomp
| i386 and x32 call numbers, high bits         | architecture and low-word checks       | seccomp
| the app's environment and memory             | Landlock's ptrace rule; pid namespace  | landlock, own_process
| secrets in the environment, open descriptors | built from nothing; all closed         | scene, confine
| signals to app and other sessions            | Landlock's signal scope; pid namespace | landlock
| lowering the app's limits or priority        | seccomp: only for oneself              | seccomp
| setsid, double fork, deaf, storm of forks    | subreaper, scoped kill(-1); namespace  | supervisor
| the app is killed while a command runs       | end of file on the channel             | supervisor
| a plain `&` that shall go on                 | the tree is emptied at every end       | supervisor
| fork bomb, memory, disk, many files          | rlimits; counting ten times a second   | confine, usage
| a flood of output                            | constant memory, a cap, then the end   | collector, output
| terminal sequences, invisible text           | cleaned before anyone sees it          | output
| a known secret in plain, base64 or URL form  | replaced in the stream                 | scrub
| a layer that is missing or fails             | canaries at start-up; exit 126         | canary, probing, confine
| a shell where nothing holds, public link     | the exposure table                     | boundary

What does not hold. Root stays the owner of root's files: without bwrap a command run as root can change their
metadata, and the number of processes is counted, not held by the kernel. Landlock shows names and attributes
(stat), and the command lines of other processes, so no secret belongs on a command line. Between two looks a
tree may use more memory or disk than it should. With the network asked for, the app's own ports can be
reached. With bwrap but without Landlock the supervisor's own program text can be read. A hole in the kernel
is a hole in this fence: strangers at scale need a virtual machine around it. macOS and Windows: see
`seatbelt` and `job_object`, both untested.
"""

from tools.sandbox.boundary import Boundary, Exposure, Layer, ShellRule, Strength, shell_rule
from tools.sandbox.command import Command, CommandLimits, Outcome, Reason, shell_argv
from tools.sandbox.fence import BackgroundProcess, Fence, LocalFence
from tools.sandbox.output import HeadTail, clean_text
from tools.sandbox.own_process import seal_own_process
from tools.sandbox.probing import probe
from tools.sandbox.running import Ending, Process, Spawn
from tools.sandbox.scrub import ScrubbedStream, Scrubber

__all__ = [
    "BackgroundProcess",
    "Boundary",
    "Command",
    "CommandLimits",
    "Ending",
    "Exposure",
    "Fence",
    "HeadTail",
    "Layer",
    "LocalFence",
    "Outcome",
    "Process",
    "Reason",
    "ScrubbedStream",
    "Scrubber",
    "ShellRule",
    "Spawn",
    "Strength",
    "clean_text",
    "probe",
    "seal_own_process",
    "shell_argv",
    "shell_rule",
]
