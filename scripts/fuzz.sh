#!/usr/bin/env bash
# fuzz.sh each DURATION       every fuzz target for that long
# fuzz.sh budget SECONDS      all of them within it, evenly
#
# Prints one line per target. An input that a target failed on is kept by Go
# under the package's testdata/fuzz and is from then on part of `go test`.
# With UNAVEZ_TEST_COUNTS set, adds its results to that file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
each_seconds_max=5
mode=${1:?} amount=${2:?}

# Folder and target per line. Only packages whose text has a target
# are compiled for the listing.
targets() {
	local dir target
	scripts/files.sh '*_test.go' | { xargs grep -lE '^func Fuzz[A-Z0-9_]' || true; } |
		xargs -r -n 1 dirname | sort -u |
		while read -r dir; do
			(cd "$dir" && go test -list '^Fuzz' . </dev/null) | { grep '^Fuzz' || true; } |
				while read -r target; do printf '%s %s\n' "$dir" "$target"; done
		done
}

list=$(targets)
[ -n "$list" ] || { echo "no fuzz targets"; exit 0; }
count=$(printf '%s\n' "$list" | wc -l)
duration=$amount
if [ "$mode" = budget ]; then
	seconds=$((amount / count))
	[ "$seconds" -ge 1 ] || seconds=1
	[ "$seconds" -le "$each_seconds_max" ] || seconds=$each_seconds_max
	duration=${seconds}s
fi

passed=0 failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
while read -r dir target; do
	if (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 10s .) >"$out" 2>&1 </dev/null; then
		passed=$((passed + 1))
		printf 'ok    %s %s  %s\n' "$dir" "$target" \
			"$(grep -oE 'execs: [0-9]+' "$out" | tail -n 1)"
	else
		failed=$((failed + 1))
		printf 'FAIL  %s %s\n' "$dir" "$target"
		cat "$out"
	fi
done <<<"$list"
[ -z "${UNAVEZ_TEST_COUNTS:-}" ] || echo "$passed $failed" >>"$UNAVEZ_TEST_COUNTS"
[ "$failed" = 0 ]
