#!/usr/bin/env bash
# Form, vet, staticcheck, and the one version pin that no tool keeps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=0
fault() { echo "lint: $*" >&2; failed=1; }

unformatted=$(scripts/files.sh '*.go' | grep -v '/testdata/' | xargs gofmt -l) || fault "gofmt could not read a file"
[ -z "$unformatted" ] || fault "gofmt would change:"$'\n'"$unformatted"

for script in .ci/run scripts/*.sh; do
	bash -n "$script" || fault "$script does not parse"
done

staticcheck=$PWD/.cache/bin/staticcheck
mkdir -p .cache/bin
go build -buildvcs=false -o "$staticcheck" honnef.co/go/tools/cmd/staticcheck
for module in $(scripts/modules.sh); do
	(cd "$module" && go vet ./...) || fault "go vet, module $module"
	(cd "$module" && "$staticcheck" ./...) || fault "staticcheck, module $module"
done

# modernc.org/sqlite is a translation made for one version of modernc.org/libc;
# with another one it compiles and may corrupt.
named=$(awk '$1 == "modernc.org/libc" { print $2 }' "$(go mod download -json modernc.org/sqlite | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')")
chosen=$(go list -m -f '{{.Version}}' modernc.org/libc)
[ "$named" = "$chosen" ] || fault "go.mod chooses modernc.org/libc $chosen, modernc.org/sqlite names ${named:-nothing}"
exit "$failed"
