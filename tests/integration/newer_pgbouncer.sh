#!/usr/bin/env bash
# Unpack Debian 13's PgBouncer into the directory named, with its own C library, and leave the machine as it is: from the
# mirror that apt uses here. The program is then DIRECTORY/pgbouncer.
set -euo pipefail
target=$1
mkdir -p "$target/apt/lists/partial" "$target/apt/archives/partial" "$target/root"
site=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' |
    awk '$2 ~ /^(bookworm|trixie)$/ {print $1; exit}')
[ -n "$site" ] || { echo "apt has no mirror of Debian here" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site trixie main" >"$target/apt/list"
options=(-qq -o Dir::Etc::sourcelist="$target/apt/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$target/apt/lists"
    -o Dir::Cache="$target/apt" -o Dir::State::status=/dev/null -o Acquire::Languages=none -o Acquire::Retries=1
    -o Acquire::http::Timeout=20)
if [ "$(id -u)" = 0 ]; then options+=(-o APT::Sandbox::User=root); fi
apt-get "${options[@]}" update
cd "$target/apt/archives"
apt-get "${options[@]}" download pgbouncer libc6 libcares2 libevent-2.1-7t64 libssl3t64 libsystemd0 libcap2 libpam0g \
    libaudit1 libcap-ng0 libzstd1 zlib1g libgcrypt20 libgpg-error0 liblz4-1 liblzma5
for package in *.deb; do dpkg-deb --extract "$package" "$target/root"; done
libraries=$(dirname "$(find "$target/root" -name libc.so.6)")
cat >"$target/pgbouncer" <<END
#!/bin/sh
exec "$(echo "$libraries"/ld-linux*.so.*)" --library-path "$libraries" "$target/root/usr/sbin/pgbouncer" "\$@"
END
chmod 755 "$target/pgbouncer"
"$target/pgbouncer" --version
rm -rf "$target/apt"
