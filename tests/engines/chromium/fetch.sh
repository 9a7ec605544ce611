#!/usr/bin/env bash
# Fetch Debian's Chromium and its driver into a directory, with the libraries that this machine lacks. Needs apt, and
# not root: the lists and archives are in the directory, and nothing is installed.
#
#     tests/engines/chromium/fetch.sh .engines/chromium
set -euo pipefail
home=$(realpath --canonicalize-missing "$1")
for program in apt-get dpkg; do
    command -v "$program" > /dev/null || { echo "chromium: needs $program, of Debian or Ubuntu" >&2; exit 1; }
done
rm -rf "$home"
mkdir -p "$home"/apt/state/lists/partial "$home"/apt/cache/archives/partial "$home"/root
options=(
    -qq -o Dir::State="$home/apt/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$home/apt/cache"
    -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)"
)
apt-get "${options[@]}" update
apt-get "${options[@]}" --yes --no-install-recommends --download-only --reinstall install \
    chromium chromium-common chromium-driver fonts-dejavu-core > /dev/null
for archive in "$home"/apt/cache/archives/*.deb; do
    dpkg --extract "$archive" "$home/root"
done
rm -rf "$home/apt"

# Only these fonts, so that a page looks alike wherever it is opened.
cat > "$home/fonts.conf" << END
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>$home/root/usr/share/fonts</dir>
  <cachedir>$home/fontcache</cachedir>
  <alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
END
