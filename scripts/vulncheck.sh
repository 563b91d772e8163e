#!/usr/bin/env bash
# Known vulnerabilities that our code can reach. Not part of `make test`: the
# answer changes from day to day without a change here. GOVULNDB names another
# database, file:///… for one on this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
echo "Go $(go env GOVERSION), database ${GOVULNDB:-https://vuln.go.dev}"
for module in $(scripts/modules.sh); do
	echo "module $module"
	govulncheck=$PWD/.cache/bin/govulncheck
	[ "$module" = . ] && go build -o "$govulncheck" golang.org/x/vuln/cmd/govulncheck
	(cd "$module" && "$govulncheck" ${GOVULNDB:+-db "$GOVULNDB"} ./...)
done
