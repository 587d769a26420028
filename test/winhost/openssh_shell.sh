#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# The login shell of an OpenSSH host. It notes what it is asked to run, lets the faults
# of commands and of SFTP happen, runs the agent, and leaves the rest to the real shell.
sftp=/usr/lib/openssh/sftp-server
. /run/winhost/fault
# The file of accounts cannot say so: colons separate its fields.
export HOME=/C:/Users/Administrator
cd $HOME
if [ "$1" != -c ]; then
    printf '\0' >>/run/winhost/commands
    exec /bin/sh
fi
if [ "$2" = $sftp ]; then
    if [ -n "$disk_full" ]; then
        # No file may grow, and the signal about it is ignored: writing fails, and
        # sftp-server says SSH_FX_FAILURE as it does of a disk without space.
        trap '' XFSZ
        ulimit -f 0
    fi
    exec $sftp ${read_only:+-R}
fi
printf '%s\0' "$2" >>/run/winhost/commands
if [ -z "$exec_match" ] || printf '%s' "$2" | grep -qzP -e "$exec_match"; then
    [ -z "$exec_hang" ] || exec sleep infinity
    [ -z "$exec_exit" ] || exit "$exec_exit"
fi
case $2 in
'C:\Windows\windows-node-agent\'*.exe | 'C:\Windows\windows-node-agent\'*'.exe '*)
    program=${2%%.exe*}.exe
    AGENTHOST_EXECUTABLE=/$(printf '%s' "$program" | tr '\\' /)
    if [ ! -f "$AGENTHOST_EXECUTABLE" ]; then # as cmd.exe says it
        printf "'%s' is not recognized as an internal or external command,\noperable program or batch file.\n" "$program" >&2
        exit 1
    fi
    export AGENTHOST_EXECUTABLE
    set -f
    exec /run/winhost/agent ${2#"$program"}
    ;;
esac
exec /bin/sh -c "$2"
