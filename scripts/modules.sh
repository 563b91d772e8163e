#!/usr/bin/env bash
# Prints the directory of each Go module here, the main one (.) first.
set -euo pipefail
"$(dirname "${BASH_SOURCE[0]}")/files.sh" go.mod | grep -v '/testdata/' | sed -E 's,/?go\.mod$,,; s,^$,.,' | sort
