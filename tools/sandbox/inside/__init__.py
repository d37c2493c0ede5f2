"""The small program that stands between the app and a command. It runs in a process of its own, as

    python -I -S -c "...; from inside import supervisor; supervisor.main()" <folder> <descriptor of the policy>

so it uses the standard library only, imports nothing of the house, and keeps away from slow imports (`json`,
`signal` and `typing` would each add a third to its start). Reading order: supervisor, confine, landlock,
seccomp, usage, kernel.
"""
