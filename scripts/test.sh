#!/usr/bin/env bash
# The steps of `make test`, inside with-services.sh. A failing step does not
# hide the later ones; the last line counts the results of all of them. Lint,
# verify and each fuzz target count as one result.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${UNAVEZ_TEST_POSTGRES:?run through make test}"
fuzz_budget_seconds=60
counts=$PWD/.cache/test/counts
testsum=$PWD/.cache/bin/testsum
mkdir -p .cache/test .cache/bin
: >"$counts"
export UNAVEZ_TEST_COUNTS=$counts
times='' failed=0

failures() { awk '{ n += $2 } END { print n + 0 }' "$counts"; }

step() {
	local name=$1 begun=$SECONDS status=0 before
	shift
	before=$(failures)
	printf '\n== %s\n' "$name"
	"$@" || status=$?
	if [ "$status" != 0 ]; then
		failed=1
		[ "$(failures)" != "$before" ] || echo "0 1" >>"$counts"
	fi
	times+=$(printf '%6ds  %-4s  %s' $((SECONDS - begun)) "$([ "$status" = 0 ] && echo ok || echo FAIL)" "$name")$'\n'
	return 0
}

# A step that is one result; step counts it if it fails.
single() { "$@" && echo "1 0" >>"$counts"; }

tests() {
	local module=$1
	(cd "$module" && go test -race -count=1 -json ./... | "$testsum" -counts "$counts")
}

go build -buildvcs=false -o "$testsum" ./internal/testsum
step lint single scripts/lint.sh
for module in $(scripts/modules.sh); do
	step "tests of module $module" tests "$module"
done
step verify single go run ./internal/verify
step fuzz scripts/fuzz.sh budget "$fuzz_budget_seconds"

printf '\n%s\n' "$times"
awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed }' "$counts" |
	tee .cache/test/summary
exit "$failed"
