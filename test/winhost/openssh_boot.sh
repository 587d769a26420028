# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# The life of an OpenSSH host, run by sh on a machine of its own with the host's directory
# as working directory. Every line on standard input makes sshd read its configuration
# again; the end of it shuts the host down.
set -e
# What the host may write to is its own. --no-canonicalize: the sources are relative to the
# working directory, which stays reachable when something is mounted over its path.
own() { mount --no-canonicalize --bind "./$1" "$2"; }
own run /run
own control /run/winhost
own control/passwd /etc/passwd
own control/shadow /etc/shadow
own control/boot_id /proc/sys/kernel/random/boot_id
own var /var
own root /root
cd /root
# sshd tells whoever logs in with a terminal that it is missing.
: >>/var/log/lastlog

# Newer versions of sshd make a client wait that failed to log in; here all clients have
# one address.
set -- -D -e -f /run/winhost/sshd_config
if /usr/sbin/sshd -t -o PerSourcePenalties=no "$@" 2>/dev/null; then
    set -- "$@" -o PerSourcePenalties=no
fi
/usr/sbin/sshd "$@" </dev/null &
while read -r _; do
    kill -HUP $!
done
kill $!
