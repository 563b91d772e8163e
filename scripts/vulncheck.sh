#!/usr/bin/env bash
# Known vulnerabilities that our code can reach. Not part of `make test`: the
# answer changes from day to day without a change here.
#
#   GOVULNDB=file:///DIR   another database, for example a copy on this machine
#   GOVULNDB=module        one made from the module golang.org/x/vulndb, for
#                          where the module proxy is reachable and the public
#                          database is not
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=$PWD/.cache
mkdir -p "$cache/bin"

if [ "${GOVULNDB:-}" = module ]; then
	source=$(cd "$cache" && GOFLAGS=-mod=mod go mod download -json golang.org/x/vulndb@latest | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
	rm -rf "$cache/vulndb"
	(cd "$cache" && go run "golang.org/x/vulndb/cmd/indexdb@${source##*@}" -vulns "$source/data/osv" -out "$cache/vulndb")
	GOVULNDB=file://$cache/vulndb
fi

echo "$(go env GOVERSION), database ${GOVULNDB:-https://vuln.go.dev}"
go build -buildvcs=false -o "$cache/bin/govulncheck" golang.org/x/vuln/cmd/govulncheck
status=0
for module in $(scripts/modules.sh); do
	echo "module $module"
	(cd "$module" && "$cache/bin/govulncheck" ${GOVULNDB:+-db "$GOVULNDB"} ./...) || status=$?
done
exit "$status"
