#!/usr/bin/env bash
# Prints the directory of each Go module here, the main one (.) first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git ls-files --cached --others --exclude-standard -- 'go.mod' '*/go.mod' |
	sed -E 's,/?go\.mod$,,; s,^$,.,' | sort
