#!/usr/bin/env bash
# Fetch the Python of a suite of Debian into a directory, with the C library that it is built for, which this machine
# need not have. Needs apt, and not root: nothing is installed. `DIRECTORY/bin/python3.13` runs.
#
#     tests/engines/python/fetch.sh 3.13 trixie .engines/python3.13
set -euo pipefail
python=python$1
suite=$2
home=$(realpath --canonicalize-missing "$3")
for program in apt-get dpkg; do
    command -v "$program" > /dev/null || { echo "$python: needs $program, of Debian" >&2; exit 1; }
done
rm -rf "$home"
mkdir -p "$home"/apt/state/lists/partial "$home"/apt/cache/archives/partial "$home"/root "$home"/bin
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] http://deb.debian.org/debian $suite main" > "$home/apt/sources"
touch "$home/apt/status" # as if nothing were installed: all that it needs is fetched
options=(
    -qq -o Dir::Etc::sourcelist="$home/apt/sources" -o Dir::Etc::sourceparts=- -o Dir::State="$home/apt/state"
    -o Dir::State::status="$home/apt/status" -o Dir::Cache="$home/apt/cache" -o Debug::NoLocking=1
    -o APT::Sandbox::User="$(id -un)"
)
apt-get "${options[@]}" update
apt-get "${options[@]}" --yes --no-install-recommends --download-only install \
    "$python" "$python-venv" > /dev/null
for archive in "$home"/apt/cache/archives/*.deb; do
    dpkg --extract "$archive" "$home/root"
done
rm -rf "$home/apt"

# The program looks for its own C library, wherever it is started from and whatever links to it.
libraries=$(echo "$home"/root/usr/lib/*-linux-gnu)
"${PATCHELF:-patchelf}" --set-interpreter "$(echo "$libraries"/ld-linux-*.so.*)" --force-rpath --set-rpath "$libraries" \
    "$home/root/usr/bin/$python"
ln -s "$home/root/usr/bin/$python" "$home/bin/$python"
