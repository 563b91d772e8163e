#!/usr/bin/env bash
# Says what building and testing needs, and fails naming everything missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/postgres.sh

want=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)
missing=0

row() { printf '  %-12s %s\n' "$1" "$2"; }
lack() { row "$1" "MISSING: $2"; missing=$((missing + 1)); }

# True if version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

echo "needed:"
if command -v go >/dev/null; then
	have=$(go env GOVERSION | sed 's/^go//')
	if at_least "$have" "$want"; then row Go "$have"; else lack Go "$have is older than $want"; fi
else
	lack Go "$want or newer, https://go.dev/dl/"
fi
if command -v git >/dev/null; then row git "$(git --version | sed 's/git version //')"; else lack git "install the package git"; fi
if command -v make >/dev/null; then row make "$(make --version | head -n 1)"; else lack make "install the package make"; fi
cc=$(go env CC 2>/dev/null || echo cc)
if command -v "${cc%% *}" >/dev/null; then row "C compiler" "$cc, for -race alone"; else lack "C compiler" "-race needs one (package gcc)"; fi
dir=$(postgres_bin)
if [ -n "$dir" ]; then
	row PostgreSQL "$("$dir/postgres" --version | sed 's/postgres (PostgreSQL) //')"
elif command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
	row PostgreSQL "not found, will be installed through apt-get"
else
	lack PostgreSQL "$pg_version_min or newer (package postgresql), or UNAVEZ_POSTGRES_BIN=/its/bin"
fi
[ "$missing" = 0 ] || die "$missing missing, see above"
