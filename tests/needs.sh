#!/bin/sh
# What the tests need beside Python packages: a real sshd. Installs it where that is allowed, else says how.
set -eu
missing=""
for need in sshd:openssh-server ssh:openssh-client ssh-keygen:openssh-client git:git; do
    tool=${need%%:*}
    command -v "$tool" >/dev/null 2>&1 || [ -x "/usr/sbin/$tool" ] || missing="$missing ${need##*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing for the tests:$missing"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
    exit 0
fi
echo "the tests need a real SSH server, and this user may not install one; run:" >&2
echo "    sudo apt-get install -y$missing" >&2
exit 1
