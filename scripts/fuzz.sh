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
root=$PWD

# module, package and target per line. Only packages whose text has a target
# are compiled for the listing.
targets() {
	local module package
	for module in $(scripts/modules.sh); do
		(
			cd "$module"
			{ git grep --untracked -lE '^func Fuzz[A-Z0-9_]' -- '*_test.go' || true; } | xargs -r -n 1 dirname | sort -u |
				while read -r package; do
					[ "$(cd "$package" && go list -m -f '{{.Dir}}')" = "$PWD" ] || continue
					go test -list '^Fuzz' "./$package" | { grep '^Fuzz' || true; } |
						while read -r target; do printf '%s %s %s\n' "$module" "./$package" "$target"; done
				done
		)
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
while read -r module package target; do
	if (cd "$root/$module" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 10s "$package") >"$out" 2>&1 </dev/null; then
		passed=$((passed + 1))
		printf 'ok    %s %s  %s\n' "$package" "$target" \
			"$(grep -oE 'execs: [0-9]+' "$out" | tail -n 1)"
	else
		failed=$((failed + 1))
		printf 'FAIL  %s %s\n' "$package" "$target"
		cat "$out"
	fi
done <<<"$list"
[ -z "${UNAVEZ_TEST_COUNTS:-}" ] || echo "$passed $failed" >>"$UNAVEZ_TEST_COUNTS"
[ "$failed" = 0 ]
