# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# The life of an OpenSSH host, run by sh on a machine of its own with the host's directory
# as working directory. Every line on standard input makes sshd read its configuration
# again; the end of it shuts the host down.
set -e
# The host has a root of its own, because it has a directory in it that this machine has
# not: drive C, as SFTP servers on Windows call it.
mount -t tmpfs -o mode=755 sysroot sysroot
for name in bin dev etc lib lib32 lib64 libx32 opt proc sbin sys usr; do
    if [ -L "/$name" ]; then
        cp -P "/$name" "sysroot/$name"
    elif [ -d "/$name" ]; then
        mkdir "sysroot/$name"
        mount --rbind "/$name" "sysroot/$name"
    fi
done
mkdir sysroot/run sysroot/var sysroot/root sysroot/tmp sysroot/C:
# What the host may write to is its own.
own() { mount --bind "$1" "sysroot$2"; }
own run /run
own control /run/winhost
own control/passwd /etc/passwd
own control/shadow /etc/shadow
own control/boot_id /proc/sys/kernel/random/boot_id
own var /var
own var/lib/windows-node-agent/c /C:
own root /root
own tmp /tmp
# sshd tells whoever logs in with a terminal that it is missing.
: >>var/log/lastlog

# Newer versions of sshd make a client wait that failed to log in; here all clients have
# one address.
set -- -D -e -f /run/winhost/sshd_config
if chroot sysroot /usr/sbin/sshd -t -o PerSourcePenalties=no "$@" 2>/dev/null; then
    set -- "$@" -o PerSourcePenalties=no
fi
chroot sysroot /usr/sbin/sshd "$@" </dev/null &
while read -r _; do
    kill -HUP $!
done
kill $!
